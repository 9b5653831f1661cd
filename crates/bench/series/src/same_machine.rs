//! Refuses to resume on another machine: the results would mix two machines.

use anyhow::ensure;
use plimsoll_measure::environment::Environment;

const GIB: u64 = 1 << 30;

/// Checks that the machine and this program are those of the earlier runs. Unknown facts count as equal. Kernels report
/// slightly different sizes of the same memory, so it is compared by the GiB.
///
/// # Errors
/// When the machine or the program differs. The error names the first difference.
pub fn check_same(earlier: &Environment, now: &Environment) -> anyhow::Result<()> {
    for ((what, was), (_, is)) in facts(earlier).into_iter().zip(facts(now)) {
        let differs = was.is_some() && is.is_some() && was != is;
        ensure!(
            !differs,
            "--resume: the earlier runs were measured with another {what} ({} and now {}): the results would mix two machines or \
             versions. Continue on the first machine, or start anew without --resume",
            was.unwrap_or_default(),
            is.unwrap_or_default()
        );
    }
    Ok(())
}

fn facts(of: &Environment) -> [(&'static str, Option<String>); 5] {
    let is_known = !of.plimsoll.is_empty();
    let built = if of.optimised { "optimised" } else { "not optimised" };
    [
        ("CPU", of.cpu.clone()),
        ("number of cores", (of.cores > 0).then(|| of.cores.to_string())),
        ("memory", of.memory_bytes.map(|bytes| format!("{} GiB", (bytes + GIB / 2) / GIB))),
        ("version of Plimsoll", is_known.then(|| of.plimsoll.clone())),
        ("build of Plimsoll", is_known.then(|| built.to_owned())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Environment {
        Environment {
            cpu: Some("EPYC".into()),
            cores: 4,
            memory_bytes: Some(16 << 30),
            kernel: Some("6.1".into()),
            plimsoll: "1.0.0".into(),
            ..Environment::default()
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Environment), part: Option<&str>) {
        let mut now = here();
        change(&mut now);
        let result = check_same(&here(), &now).map_err(|error| error.to_string());
        match part {
            None => assert_eq!(result, Ok(())),
            Some(part) => assert!(result.as_ref().is_err_and(|text| text.contains(part)), "{result:?}"),
        }
    }

    #[test]
    fn another_machine_or_version_is_refused_and_another_kernel_is_not() {
        check(|_| (), None);
        check(|it| (it.kernel, it.disk) = (Some("6.2".into()), Some("sdb".into())), None);
        check(|it| it.memory_bytes = Some((16 << 30) - (9 << 20)), None);
        check(|it| it.cpu = None, None);
        check(|it| it.cpu = Some("Xeon".into()), Some("another CPU (EPYC and now Xeon)"));
        check(|it| it.cores = 2, Some("another number of cores (4 and now 2)"));
        check(|it| it.memory_bytes = Some(8 << 30), Some("another memory (16 GiB and now 8 GiB)"));
        check(|it| it.plimsoll = "1.1.0".into(), Some("another version of Plimsoll (1.0.0 and now 1.1.0)"));
        check(|it| it.optimised = true, Some("another build of Plimsoll"));
        assert!(check_same(&Environment::default(), &here()).is_ok(), "nothing is known of the earlier one");
    }
}
