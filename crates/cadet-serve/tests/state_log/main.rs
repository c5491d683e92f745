//! Whatever becomes of the disk or the process: what was acknowledged is there, once, and what is read is true.

mod basics;
mod crash;
mod damage;
mod files;
mod kill;
mod oracle;
mod random;
mod sim;
mod world;
