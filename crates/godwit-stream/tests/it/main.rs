//! Integration tests of `godwit-stream`.

mod allocation;
mod codec;
mod copy_speed;
