use super::*;
use crate::launch::manifest;

#[test]
fn lists_of_nodes_are_expanded() {
    for (list, all) in [
        ("n0", "n0"),
        ("n[0-2,7],login", "n0 n1 n2 n7 login"),
        ("r[1-2]n[08-10]x", "r1n08x r1n09x r1n10x r2n08x r2n09x r2n10x"),
        ("a,b-1", "a b-1"),
    ] {
        assert_eq!(nodes(list).unwrap().join(" "), all);
    }
    for list in ["", "n[0-", "n]0", "n[2-1]", "n[a-b]", "n[0-1],,m", "n[0-99999999]", "n[0-99999][0-99999]"] {
        assert_eq!(nodes(list), None, "{list}");
    }
}

fn allocation(variables: &[(&str, &str)]) -> Option<Allocation> {
    Allocation::of(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
}

fn one() -> Allocation {
    allocation(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[0-2]")]).unwrap()
}

fn two() -> Allocation {
    let lists = [("SLURM_JOB_NODELIST_HET_GROUP_0", "a0"), ("SLURM_JOB_NODELIST_HET_GROUP_1", "b[0-1]")];
    let all = [&[("SLURM_JOB_ID", "7"), ("SLURM_HET_SIZE", "2"), ("SLURM_JOB_NODELIST", "a0")][..], &lists].concat();
    allocation(&all).unwrap()
}

/// What each job of two ranks gets, as a text: its component, its nodes, and whether they are shared.
fn shares(slurm: &[&str], allocation: &Allocation) -> Vec<String> {
    let job = |(at, slurm): (usize, &&str)| {
        let slurm = if slurm.is_empty() { String::new() } else { format!("slurm = {slurm}\n") };
        format!("[job.j{at}]\nlauncher = 'srun'\nranks = 2\nprogram = 'x'\n{slurm}")
    };
    let text: String = slurm.iter().enumerate().map(job).collect();
    let jobs = manifest::read(&text).unwrap().jobs;
    match divide(&jobs, allocation) {
        Ok(all) => all
            .iter()
            .map(|share| {
                let component = share.component.map_or("-".into(), |at| at.to_string());
                let nodes = share.nodes.as_ref().map_or("all".into(), |nodes| nodes.join(","));
                format!("{component} {nodes}{}", if share.is_shared { " shared" } else { "" })
            })
            .collect(),
        Err(problems) => problems.into_iter().map(|(at, what)| format!("{at}: {what}")).collect(),
    }
}

#[test]
fn no_node_is_given_twice() {
    assert_eq!(allocation(&[("SLURM_JOB_NODELIST", "n0")]), None);
    assert_eq!(shares(&["{ nodes = 2 }", "{ nodes = 1 }"], &one()), ["- n0,n1", "- n2"]);
    assert_eq!(shares(&["", "{ nodes = 2 }", ""], &one()), ["- n2 shared", "- n0,n1", "- n2 shared"]);
    assert_eq!(shares(&["", ""], &one()), ["- all shared"; 2]);
    assert_eq!(shares(&["{ partition = 'p' }"], &one()), ["- all"]);
    assert_eq!(
        shares(&["{ nodes = 2 }", "{ nodes = 2 }"], &one()),
        ["1: slurm: too few nodes: 'j0' 2, 'j1' 2 make 4, and there are 3"]
    );
    assert_eq!(shares(&["{ nodes = 2 }", "{ nodes = 1 }", ""], &one()), ["2: slurm: no node is left for it"]);
    let text = "[job.a]\nlauncher = '{program}'\nranks = 1\nprogram = 'x'\n[job.b]\nlauncher = 'srun'\nranks = 3\nprogram = 'x'\nslurm = { nodes = 3 }\n";
    let shares_of = divide(&manifest::read(text).unwrap().jobs, &one()).unwrap();
    assert_eq!(shares_of[0], Share::default(), "it is left as it is");
    assert_eq!(shares(&["{ nodes = 3 }"], &one()), ["0: slurm: 3 nodes for 2 ranks"]);
}

#[test]
fn jobs_are_in_the_components_that_they_ask_for() {
    assert_eq!(shares(&["", "{ partition = 'p' }"], &two()), ["0 all", "1 all"]);
    assert_eq!(shares(&["{ het-group = 1 }", "{ het-group = 1, nodes = 1 }", ""], &two()), ["1 b1", "1 b0", "0 all"]);
    assert_eq!(shares(&["{ partition = 'p' }", "{ constraint = 'c' }"], &one()), ["- all shared"; 2]);
    assert_eq!(
        shares(&["{ het-group = 1 }"], &one()),
        ["0: slurm: component 1 of 1 is not there; they are counted from 0"]
    );
}
