//! Tests of the parts that are not public.

mod engine_memory;
mod matching;
mod parts;
