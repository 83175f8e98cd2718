#![no_std]

extern crate no_panic;
extern crate snmalloc_sys;
