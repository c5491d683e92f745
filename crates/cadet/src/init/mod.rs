//! Where do the tasks' embeddings start? Each way to start is one file here that ends in a plain
//! [`TaskEmbeddings`](crate::tasks::TaskEmbeddings).

pub mod learned;
pub mod random;
