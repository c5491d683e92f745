//! Files in, files out.
