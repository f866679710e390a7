//! Facts about the machine; never timings.
