//! A program that only names the crate. With the feature `override` its whole process is on hakmem:
//! HAKMEM_PROOF=/dev/stderr cargo run --features override --example whole

use hakmem as _;

fn main() {
    let text = String::from("allocated by malloc");
    println!("{text}");
}
