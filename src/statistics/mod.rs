//! Pure functions on numbers.
