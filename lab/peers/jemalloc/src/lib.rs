#![no_std]

extern crate no_panic;
extern crate tikv_jemalloc_sys;
