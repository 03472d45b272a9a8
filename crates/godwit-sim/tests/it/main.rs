//! Tests of the generator through its public interface.

mod chain;
mod hostile;
