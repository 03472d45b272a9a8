//! Tests of `godwit-keys` from outside. Its compile-fail tests are in `godwit-secret`: here they would
//! have to build the script engine that other tests use, once more.

mod kill;
