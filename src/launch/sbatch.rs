//! A script for `sbatch` that runs a launch inside an allocation of its own, with what the jobs need.
//!
//! Invariant: the launch in it divides the allocation as it is asked for here, since both go by `slurm::components`.

use super::manifest::{Job, Manifest, Needs};
use super::slurm;
use crate::run::quote;
use std::fmt::Write as _;

/// How long before its time is over the launch is told, in seconds: jobs can end in order.
const BEFORE: u32 = 60;

/// What a script is made from besides the manifest.
pub struct Script<'a> {
    /// What the queue calls it.
    pub title: &'a str,
    pub command: &'a str,
    /// Its words behind the command.
    pub words: &'a [String],
}

/// What one component asks for.
struct Component<'m> {
    needs: Vec<&'m Needs>,
    /// None: no job says how many.
    nodes: Option<usize>,
    ranks: usize,
    /// On the node that has most.
    ranks_of_node: usize,
}

impl Component<'_> {
    fn of<'m>(jobs: &[&'m Job]) -> Component<'m> {
        let nodes = |job: &Job| job.slurm.as_ref().and_then(|needs| needs.nodes);
        let is_said = jobs.iter().any(|job| nodes(job).is_some());
        // Those that say nothing share one.
        let rest = usize::from(jobs.iter().any(|job| nodes(job).is_none()));
        let others = jobs.iter().filter(|job| nodes(job).is_none()).map(|job| job.ranks).sum();
        let own = jobs.iter().filter_map(|job| nodes(job).map(|nodes| job.ranks.div_ceil(nodes)));
        Component {
            needs: jobs.iter().filter_map(|job| job.slurm.as_ref()).collect(),
            nodes: is_said.then(|| jobs.iter().filter_map(|job| nodes(job)).sum::<usize>() + rest),
            ranks: jobs.iter().map(|job| job.ranks).sum(),
            ranks_of_node: own.chain([others]).max().unwrap_or(1),
        }
    }

    fn options(&self) -> Vec<String> {
        let mut all = match self.nodes {
            Some(nodes) => vec![format!("--nodes={nodes}"), format!("--ntasks-per-node={}", self.ranks_of_node)],
            None => vec![format!("--ntasks={}", self.ranks)],
        };
        let mut add = |option: String| {
            if !all.contains(&option) {
                all.push(option);
            }
        };
        for needs in &self.needs {
            needs.partition.iter().for_each(|partition| add(format!("--partition={partition}")));
            needs.constraint.iter().for_each(|constraint| add(format!("--constraint={constraint}")));
            needs.options.iter().cloned().for_each(&mut add);
        }
        all
    }
}

/// The components in order; those without a job are left out, and so an error.
fn all(manifest: &Manifest) -> Result<Vec<Component<'_>>, String> {
    let said = slurm::components(&manifest.jobs);
    let last = said.iter().max().copied().unwrap_or(0);
    (0..=last)
        .map(|at| {
            let jobs: Vec<&Job> =
                manifest.jobs.iter().zip(&said).filter(|(_, of)| **of == at).map(|(job, _)| job).collect();
            if jobs.is_empty() {
                return Err(format!("slurm: no job has het-group = {at}, and one has {last}"));
            }
            Ok(Component::of(&jobs))
        })
        .collect()
}

/// The script, and whether it asks for several nodes.
pub fn script(manifest: &Manifest, of: &Script<'_>) -> Result<(String, bool), String> {
    let components = all(manifest)?;
    let request = &manifest.slurm;
    let mut text = String::from("#!/bin/bash\n");
    let mut option = |option: &str| {
        let _ = writeln!(text, "#SBATCH {option}");
    };
    option(&format!("--job-name={}", of.title));
    // To the launch alone, which tells its jobs.
    option(&format!("--signal=B:TERM@{BEFORE}"));
    request.time.iter().for_each(|time| option(&format!("--time={time}")));
    request.account.iter().for_each(|account| option(&format!("--account={account}")));
    request.options.iter().for_each(|said| option(said));
    for (at, component) in components.iter().enumerate() {
        if at > 0 {
            option("hetjob");
            request.time.iter().for_each(|time| option(&format!("--time={time}")));
            request.account.iter().for_each(|account| option(&format!("--account={account}")));
        }
        component.options().iter().for_each(|said| option(said));
    }
    text.push('\n');
    for line in &request.before {
        text.push_str(line);
        text.push('\n');
    }
    let words: Vec<String> = [of.command].into_iter().chain(of.words.iter().map(String::as_str)).map(quote).collect();
    // In place of the shell, which would not pass signals on.
    let _ = writeln!(text, "exec {}", words.join(" "));
    Ok((text, components.len() > 1 || components.iter().any(|one| one.nodes.is_some_and(|nodes| nodes > 1))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::manifest;

    fn made(text: &str) -> Result<(String, bool), String> {
        let words = ["launch".to_owned(), "/a b/coupled.toml".to_owned()];
        script(&manifest::read(text).unwrap(), &Script { title: "coupled", command: "/bin/mpi-connect", words: &words })
    }

    fn job(name: &str, ranks: u32, slurm: &str) -> String {
        format!("[job.{name}]\nlauncher = 'srun'\nranks = {ranks}\nprogram = 'x'\nslurm = {{ {slurm} }}\n")
    }

    #[test]
    fn one_allocation_has_nodes_for_each_job() {
        let all = "slurm = { time = '01:00:00', account = 'sea', before = ['module load a', 'ulimit -s unlimited'] }\n";
        let (text, are_several) = made(&(all.to_owned() + &job("air", 5, "nodes = 2") + &job("ocean", 2, ""))).unwrap();
        assert!(are_several);
        assert_eq!(
            text,
            "#!/bin/bash\n#SBATCH --job-name=coupled\n#SBATCH --signal=B:TERM@60\n#SBATCH --time=01:00:00\n\
             #SBATCH --account=sea\n#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=3\n\nmodule load a\nulimit -s unlimited\n\
             exec /bin/mpi-connect launch '/a b/coupled.toml'\n"
        );
        let (text, are_several) = made(&(job("air", 2, "") + &job("ocean", 3, ""))).unwrap();
        assert!(text.contains("\n#SBATCH --ntasks=5\n") && !text.contains("hetjob") && !are_several, "{text}");
    }

    #[test]
    fn jobs_that_ask_for_different_nodes_make_a_heterogeneous_job() {
        let text = job("air", 4, "partition = 'big', nodes = 2")
            + &job("ocean", 3, "constraint = 'gpu', options = ['--gres=gpu:1']");
        let (text, are_several) = made(&text).unwrap();
        let end = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n#SBATCH --partition=big\n#SBATCH hetjob\n#SBATCH --ntasks=3\n\
                   #SBATCH --constraint=gpu\n#SBATCH --gres=gpu:1\n\nexec /bin/mpi-connect launch '/a b/coupled.toml'\n";
        assert!(text.ends_with(end) && are_several, "{text}");
        let gap = made(&(job("air", 1, "het-group = 2") + &job("ocean", 1, "")));
        assert_eq!(gap, Err("slurm: no job has het-group = 1, and one has 2".into()));
    }
}
