//! Is it any good: what a net reaches on users that it never met, beside what simpler ways reach, and what
//! that is worth.

pub mod baselines;
pub mod calibrate;
pub mod evaluate;
pub mod verdict;
