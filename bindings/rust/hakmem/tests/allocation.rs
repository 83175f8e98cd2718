//! What Rust may ask of an allocator, asked of hakmem: directly, and by the collections of this
//! program, which is on it.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::mpsc;
use std::thread;

use hakmem::Hakmem;

#[global_allocator]
static GLOBAL: Hakmem = Hakmem;

const SIZES: [usize; 16] = [
    1, 7, 8, 9, 16, 17, 100, 128, 1000, 1024, 1025, 4096, 32768, 32769, 100_000, 3_000_000,
];
const ALIGNS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 256, 4096, 65536, 2_097_152];
/// More than any machine has.
const TOO_MUCH: usize = 1 << 62;

fn layouts() -> impl Iterator<Item = Layout> {
    ALIGNS.into_iter().flat_map(|align| {
        SIZES
            .into_iter()
            .map(move |size| Layout::from_size_align(size, align).unwrap())
    })
}

fn is_at_home(block: *mut u8, layout: Layout) -> bool {
    !block.is_null() && block as usize % layout.align() == 0
}

/// Writes bytes that differ from place to place, and from `seed` to `seed`.
unsafe fn fill(block: *mut u8, bytes: usize, seed: usize) {
    for i in 0..bytes {
        block.add(i).write((seed + i) as u8);
    }
}

unsafe fn is_filled(block: *const u8, bytes: usize, seed: usize) -> bool {
    (0..bytes).all(|i| block.add(i).read() == (seed + i) as u8)
}

unsafe fn is_zero(block: *const u8, bytes: usize) -> bool {
    (0..bytes).all(|i| block.add(i).read() == 0)
}

#[test]
fn blocks_are_aligned_and_apart() {
    let mut blocks = Vec::new();
    for (seed, layout) in layouts().enumerate() {
        let block = unsafe { GLOBAL.alloc(layout) };
        assert!(is_at_home(block, layout), "{layout:?}");
        unsafe { fill(block, layout.size(), seed) };
        blocks.push((block, layout, seed));
    }
    for (block, layout, seed) in blocks {
        let whole = unsafe { is_filled(block, layout.size(), seed) };
        assert!(whole, "{layout:?}");
        unsafe { GLOBAL.dealloc(block, layout) };
    }
}

#[test]
fn zeroed_memory_is_zero_where_it_was_used_before() {
    for layout in layouts() {
        let used = unsafe { GLOBAL.alloc(layout) };
        unsafe { fill(used, layout.size(), 1) };
        unsafe { GLOBAL.dealloc(used, layout) };
        let block = unsafe { GLOBAL.alloc_zeroed(layout) };
        assert!(is_at_home(block, layout), "{layout:?}");
        assert!(unsafe { is_zero(block, layout.size()) }, "{layout:?}");
        unsafe { GLOBAL.dealloc(block, layout) };
    }
}

#[test]
fn realloc_keeps_the_contents_and_the_alignment() {
    for align in ALIGNS {
        let mut layout = Layout::from_size_align(1, align).unwrap();
        let mut block = unsafe { GLOBAL.alloc(layout) };
        unsafe { fill(block, 1, align) };
        for size in SIZES.into_iter().chain(SIZES.into_iter().rev()) {
            block = unsafe { GLOBAL.realloc(block, layout, size) };
            assert!(is_at_home(block, layout), "{layout:?} to {size}");
            let kept = layout.size().min(size);
            assert!(
                unsafe { is_filled(block, kept, align) },
                "{layout:?} to {size}"
            );
            layout = Layout::from_size_align(size, align).unwrap();
            unsafe { fill(block, size, align) };
        }
        unsafe { GLOBAL.dealloc(block, layout) };
    }
}

#[test]
fn what_is_too_much_is_null_and_leaves_the_block() {
    for align in [1, 16, 4096] {
        let layout = Layout::from_size_align(100, align).unwrap();
        let too_much = Layout::from_size_align(TOO_MUCH, align).unwrap();
        unsafe {
            assert!(GLOBAL.alloc(too_much).is_null());
            assert!(GLOBAL.alloc_zeroed(too_much).is_null());
            let block = GLOBAL.alloc(layout);
            fill(block, 100, 3);
            assert!(GLOBAL.realloc(block, layout, TOO_MUCH).is_null());
            assert!(is_filled(block, 100, 3));
            GLOBAL.dealloc(block, layout);
        }
    }
}

#[test]
fn blocks_are_freed_by_other_threads() {
    const THREADS: u8 = 4;
    const BLOCKS: usize = 5000;
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let senders: Vec<_> = (0..THREADS)
        .map(|number| {
            let send = send.clone();
            thread::spawn(move || {
                for n in 0..BLOCKS {
                    send.send(vec![number; n % 3000 + 1]).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let mut received = 0;
    for block in receive {
        assert!(block.iter().all(|&byte| byte == block[0]));
        received += 1;
    }
    for sender in senders {
        sender.join().unwrap();
    }
    assert_eq!(received, usize::from(THREADS) * BLOCKS);
}
