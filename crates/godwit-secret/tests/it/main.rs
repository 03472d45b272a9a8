//! What secrets and their memory promise, seen from outside: by child processes, by the kernel and by
//! the compiler.

mod child;
mod compile_fail;
mod hardening;
mod memory;
mod never;
mod released;
mod residue;
mod stack;
