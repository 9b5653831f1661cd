//! Finds the cgroups of a process, version 1 or 2, and reads their CPU quotas and their throttling.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Mount, mounts, read};

/// The limit of levels that are read in a hierarchy.
const DEPTH_MAX: usize = 32;

/// The directories whose quotas apply to a process: its cgroups and their ancestors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cgroup {
    directories: Vec<PathBuf>,
    unified: Option<PathBuf>,
}

impl Cgroup {
    /// The cgroups of a process. Empty where the system has none, or this user may not see them.
    pub(super) fn of(pid: u32) -> Self {
        let membership = read(&format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let mountinfo = read("/proc/self/mountinfo").unwrap_or_default();
        let own = directories(&membership, &mountinfo);
        let unified = own.iter().find(|(version, _)| *version == Version::Two);
        let lineage = |(_, (point, path)): &(Version, (PathBuf, PathBuf))| {
            let up = path.ancestors().take(DEPTH_MAX).take_while(|it| it.starts_with(point));
            up.map(Path::to_owned).collect::<Vec<_>>()
        };
        Self {
            unified: unified.filter(|(_, (point, path))| path != point).map(|(_, (_, path))| path.clone()),
            directories: own.iter().flat_map(lineage).collect(),
        }
    }

    /// The directory of the version 2 cgroup. `None` if it is the root, which holds every process.
    pub(super) fn unified(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// The smallest quota of all levels, in cores; none without a quota.
    pub(super) fn quota_cores(&self) -> Option<f64> {
        let one = |directory: &PathBuf| {
            let file = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
            quota(&file("cpu.max"))
                .or_else(|| quota(&format!("{} {}", file("cpu.cfs_quota_us"), file("cpu.cfs_period_us"))))
        };
        self.directories.iter().filter_map(one).reduce(f64::min)
    }

    /// The time for which quotas stopped the process, in nanoseconds, summed over CPUs and levels; none if no level reports it.
    pub(super) fn throttled_ns(&self) -> Option<u64> {
        let one = |directory: &PathBuf| throttled_ns(&fs::read_to_string(directory.join("cpu.stat")).ok()?);
        self.directories.iter().filter_map(one).reduce(u64::saturating_add)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The mount point and the path of the CPU controller's cgroup and of the unified hierarchy, from `/proc/PID/cgroup`
/// (`HIERARCHY:CONTROLLERS:PATH`, see cgroups(7)).
fn directories(membership: &str, mountinfo: &str) -> Vec<(Version, (PathBuf, PathBuf))> {
    let one = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let version = match controllers {
            "" => Version::Two,
            several if several.split(',').any(|it| it == "cpu") => Version::One,
            _ => return None,
        };
        let mount = mounts(mountinfo).find(|mount| holds(mount, version))?;
        Some((version, (PathBuf::from(mount.point), below(&mount, path))))
    };
    membership.lines().filter_map(one).collect()
}

fn holds(mount: &Mount<'_>, version: Version) -> bool {
    match version {
        Version::One => mount.kind == "cgroup" && mount.options.split(',').any(|it| it == "cpu"),
        Version::Two => mount.kind == "cgroup2",
    }
}

/// The directory of a cgroup. A container mounts only its own part of the hierarchy, so the mount's root is cut off.
fn below(mount: &Mount<'_>, path: &str) -> PathBuf {
    let rest = path.strip_prefix(mount.root).unwrap_or(path).trim_start_matches('/');
    Path::new(mount.point).join(rest).components().collect()
}

/// `QUOTA PERIOD`, in microseconds, as cores. The quota is `max` or -1 without a limit.
fn quota(text: &str) -> Option<f64> {
    let mut fields = text.split_ascii_whitespace();
    let (quota, period): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Version 2 counts `throttled_usec`, version 1 `throttled_time` in nanoseconds.
fn throttled_ns(stat: &str) -> Option<u64> {
    let field = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse::<u64>().ok()
    };
    field("throttled_usec").map(|us| us.saturating_mul(1000)).or_else(|| field("throttled_time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "30 22 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        31 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        32 22 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const CONTAINER: &str =
        "40 39 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n";
    const UNIFIED: &str = "25 24 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[track_caller]
    fn check(membership: &str, mountinfo: &str, expected: &[(Version, &str)]) {
        let found = directories(membership, mountinfo);
        let found: Vec<_> =
            found.iter().map(|(version, (_, path))| (*version, path.to_str().unwrap())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn cgroups_are_found_in_both_versions_and_in_containers() {
        check(
            "0::/system.slice/mongod.service\n",
            UNIFIED,
            &[(Version::Two, "/sys/fs/cgroup/system.slice/mongod.service")],
        );
        let hybrid = "9:name=systemd:/\n4:memory:/x\n2:cpuacct:/\n1:cpu:/limited\n0::/\n";
        check(
            hybrid,
            HYBRID,
            &[(Version::One, "/sys/fs/cgroup/cpu/limited"), (Version::Two, "/sys/fs/cgroup/unified")],
        );
        check("3:cpu,cpuacct:/docker/abc\n", CONTAINER, &[(Version::One, "/sys/fs/cgroup/cpu,cpuacct")]);
        check(
            "3:cpu,cpuacct:/docker/abc/db\n",
            CONTAINER,
            &[(Version::One, "/sys/fs/cgroup/cpu,cpuacct/db")],
        );
        check("0::/\n", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", &[]);
        check("", UNIFIED, &[]);
    }

    #[test]
    fn a_quota_is_in_cores_and_may_be_missing() {
        assert_eq!(quota("50000 100000\n"), Some(0.5));
        assert_eq!(quota("250000\n 100000\n"), Some(2.5));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(quota("-1\n 100000\n"), None);
        assert_eq!(quota(""), None);
    }

    #[test]
    fn throttled_time_is_read_from_both_versions() {
        let two = "usage_usec 5\nuser_usec 3\nnr_periods 7\nnr_throttled 2\nthrottled_usec 1500\n";
        let one = "nr_periods 7\nnr_throttled 2\nthrottled_time 1500\n";
        assert_eq!((throttled_ns(two), throttled_ns(one)), (Some(1_500_000), Some(1500)));
        assert_eq!(throttled_ns("usage_usec 5\n"), None);
    }

    #[test]
    fn the_smallest_quota_of_all_levels_counts() {
        let root = tempfile::tempdir().unwrap();
        let child = root.path().join("child");
        fs::create_dir(&child).unwrap();
        fs::write(root.path().join("cpu.max"), "150000 100000\n").unwrap();
        fs::write(child.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(child.join("cpu.stat"), "throttled_usec 3\n").unwrap();
        fs::write(root.path().join("cpu.stat"), "throttled_usec 4\n").unwrap();
        let cgroup = Cgroup { directories: vec![child, root.path().to_owned()], unified: None };
        assert_eq!((cgroup.quota_cores(), cgroup.throttled_ns()), (Some(1.5), Some(7000)));
        assert_eq!((Cgroup::default().quota_cores(), Cgroup::default().throttled_ns()), (None, None));
    }
}
