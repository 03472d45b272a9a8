//! Locked memory and types for secrets that cannot leak.
