//! Free memory and free disk, as the system says.

use std::path::Path;

use super::rss;

/// Bytes of memory that this process may still take, and has taken: what is free, within the limit of its
/// control group; none where the system does not say.
pub fn available_memory() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let used = rss().unwrap_or(0);
    let free = Some(system.available_memory()).filter(|bytes| *bytes > 0)?;
    let limited = system.cgroup_limits().map(|limits| limits.free_memory);
    Some(limited.map_or(free, |limited| free.min(limited)) + used)
}

/// Free bytes of the disk that `path` is on; none where the system does not say.
pub fn free_space(path: &Path) -> Option<u64> {
    let path = std::fs::canonicalize(path).ok()?;
    let disks = sysinfo::Disks::new_with_refreshed_list();
    let holds = disks.iter().filter(|disk| path.starts_with(disk.mount_point()));
    holds
        .max_by_key(|disk| disk.mount_point().components().count())
        .map(|disk| disk.available_space())
}
