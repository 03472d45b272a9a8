//! Tests of `godwit-keys` from outside.
