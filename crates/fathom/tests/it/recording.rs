//! Recordings: full disks, kill -9, rotation, conservation.

mod conservation;
mod full_disk;
mod killed;
mod killed_promise;
mod removed;
mod rotation;
mod rotation_seams;
mod rows_full;
