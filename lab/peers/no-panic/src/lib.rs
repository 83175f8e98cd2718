//! The panic handler of libraries without Rust's standard library. Nothing in a peer can panic;
//! doing without std keeps its run-time libraries out of every process that preloads a peer,
//! where they would count as the peer's start-up time.
#![no_std]

#[panic_handler]
fn unreachable(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
