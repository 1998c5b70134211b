//! The free memory and disk of this machine, and what this process holds of it.

use std::path::Path;

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

/// Seconds since this process began; none where the system does not say.
pub fn since_start() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields follow the name in parentheses; the 20th of them counts ticks of 10 ms since boot.
    let ticks: f64 = stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Some((uptime - ticks / 100.0).max(0.0))
}

/// Whether this process was given processors of its own, other than those of the process that started it.
pub fn is_bound() -> bool {
    let field = |process: &str, name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    let processors = |process: &str| field(process, "Cpus_allowed_list:");
    let parent = field("self", "PPid:").and_then(|parent| processors(&parent));
    parent.is_some() && parent != processors("self")
}

/// Bytes of memory that this process holds; none where the system does not say.
pub fn rss() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

/// Most bytes of memory that this process has held; none where the system does not say.
pub fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
