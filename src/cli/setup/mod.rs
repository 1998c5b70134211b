//! Settings files: the recipes inside the program, a file to begin with, the schema that editors read.

pub(super) mod init;
pub(super) mod recipes;
pub(super) mod schema;
