//! Tests of the parts that are not public.

mod matching;
mod parts;
