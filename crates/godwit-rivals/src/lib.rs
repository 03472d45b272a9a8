//! The engines that godwit's benchmarks run beside, and what the machine can do at most.
