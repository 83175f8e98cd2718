//! That it is hakmem which serves this program is read from its own counters. Alone in its process,
//! because nobody else may allocate much meanwhile.

use std::mem;

use hakmem::{sys, Hakmem, Stats};

#[global_allocator]
static GLOBAL: Hakmem = Hakmem;

#[test]
fn what_the_program_holds_is_what_is_counted() {
    const SMALL: u64 = 100_000;
    const LARGE: u64 = 64 << 20;
    const OTHERS: u64 = 1000; // blocks that the test's own main thread may free

    let before = hakmem::stats().unwrap();
    let small: Vec<Box<u64>> = (0..SMALL).map(Box::new).collect();
    let large = vec![1u8; LARGE as usize];
    let during = hakmem::stats().unwrap();
    assert_eq!(
        small.iter().map(|n| **n).sum::<u64>(),
        SMALL * (SMALL - 1) / 2
    );
    assert_eq!(large[large.len() / 2], 1);

    assert_eq!(during.size as usize, mem::size_of::<Stats>());
    assert_eq!(during.version, 2);
    assert!(during.bands[0].blocks + OTHERS >= before.bands[0].blocks + SMALL);
    assert!(during.bands[sys::HAK_BAND_HUGE].allocated >= LARGE);
    assert!(during.allocated >= LARGE + SMALL * 8);
    assert!(during.resident >= LARGE);
    let room = unsafe { sys::hak_room((&*small[0] as *const u64).cast()) };
    assert!(room >= 8 && room != usize::MAX);

    drop((small, large));
    let after = hakmem::stats().unwrap();
    assert!(after.bands[0].blocks <= before.bands[0].blocks + OTHERS);
    assert!(after.allocated + LARGE <= during.allocated);
    hakmem::trim();
    assert!(hakmem::stats().unwrap().resident + LARGE <= during.resident);
}
