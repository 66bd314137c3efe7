use super::*;
use crate::launch::manifest;

fn recognise(word: &OsStr, _: &OsStr) -> Result<Kind, FindError> {
    match word.to_str().unwrap().rsplit('/').next().unwrap() {
        "mpirun.openmpi" => Ok(Kind::Orte),
        "mpirun.mpich" | "mpiexec.hydra" => Ok(Kind::Hydra),
        "mpirun.lam" => Ok(Kind::Lam),
        "srun" => Ok(Kind::Slurm),
        "aprun" => Ok(Kind::Unknown),
        "env" | "start" => Ok(Kind::Plain),
        _ => Err(FindError::Missing(word.into())),
    }
}

fn place(variables: &[&str]) -> Place<'static> {
    Place {
        folder: Path::new("/"),
        command: "/bin/mpi-connect".into(),
        naming: "file:/names".into(),
        private: "file:/private".into(),
        key: None,
        run: "case7".into(),
        cores: (0..8).collect(),
        allocation: None,
        variables: variables.iter().map(|name| (*name).to_owned()).collect(),
        recognise,
    }
}

fn planned(text: &str, variables: &[&str]) -> Result<Vec<Planned>, Vec<String>> {
    let problems = |all: Vec<Problem>| all.into_iter().map(|p| format!("{}: {}", p.line, p.what)).collect::<Vec<_>>();
    plan(&manifest::read(text).map_err(problems)?, &place(variables)).map_err(problems)
}

fn job(launcher: &str, more: &str) -> String {
    format!("[job.air]\nlauncher = {launcher:?}\nranks = 2\nprogram = ['sh', '-c', 'true']\n{more}\n")
}

/// The command line of a job of two ranks, without what is the same for all.
fn line(launcher: &str) -> String {
    let jobs = planned(&job(launcher, ""), &[]).unwrap();
    let words = jobs[0].words(&["W".into()]).join(" ");
    words.replace("/bin/mpi-connect run --naming file:/names --run case7 --", "RUN")
}

#[test]
fn launchers_are_told_how_many_ranks_there_are() {
    for (launcher, words) in [
        ("mpirun.openmpi", "RUN mpirun.openmpi --bind-to none -np 2 W sh -c true"),
        ("mpirun.openmpi --bind-to core", "RUN mpirun.openmpi --bind-to core -np 2 W sh -c true"),
        ("/opt/mpirun.mpich -l", "RUN /opt/mpirun.mpich -l -np 2 W sh -c true"),
        ("srun --mpi=pmix -c 4", "RUN srun --mpi=pmix -c 4 -n 2 W sh -c true"),
        ("lam-session mpirun.lam", "lam-session RUN mpirun.lam -np 2 W sh -c true"),
        ("env A=1 mpirun.lam -x B -c {ranks} {program} x", "env A=1 RUN mpirun.lam -x B -c 2 W sh -c true x"),
        ("start -n{ranks} {program}", "RUN start -n2 W sh -c true"),
    ] {
        assert_eq!(line(launcher), words);
    }
    let alone = |ranks: &str| planned(&job("{program}", "").replace("ranks = 2", ranks), &[]);
    assert!(
        alone("ranks = 1").unwrap()[0].words(&["W".into()]).ends_with(&["W", "sh", "-c", "true"].map(String::from))
    );
    let told = alone("ranks = 2").unwrap_err();
    assert_eq!(told, ["3: job 'air': ranks = 2: without a launcher one process is started, so ranks = 1"]);
}

#[test]
fn what_cannot_be_started_is_told() {
    for (launcher, more, line, what) in [
        (
            "aprun",
            "",
            2,
            "launcher: aprun is no launcher that is known here; say where ranks and program go: \"aprun -n {ranks} {program}\"",
        ),
        ("mpirun.mpich -n 4", "", 2, "launcher: -n stands there, and the number of ranks is added by itself: 2"),
        ("mpirun.openmpi", "directory = 'no/where'", 5, "directory: there is no folder /no/where"),
    ] {
        assert_eq!(planned(&job(launcher, more), &[]).unwrap_err(), [format!("{line}: job 'air': {what}")]);
    }
    let text = "[job.air]\nlauncher = 'mpirun.none'\nranks = 2\nprogram = './none'\ndirectory = 'tmp'\n";
    let said = planned(text, &[]).unwrap_err();
    assert!(said[0].starts_with("2: job 'air': launcher: no program 'mpirun.none' in PATH; "), "{said:?}");
    assert_eq!(said[1], "4: job 'air': there is no program ./none in /tmp");
    for (program, quote) in [("./m 'x y", ", in which a quote is not closed"), ("./m 'x y'", "")] {
        let text = job("mpirun.mpich", "").replace("['sh', '-c', 'true']", &format!("{program:?}"));
        let said = format!(
            "4: job 'air': program: there is no program {program:?}{quote}; arguments are texts of their own: \
             [\"./air\", \"namelist\"]"
        );
        assert_eq!(planned(&text, &[]).unwrap_err(), [said]);
    }
    let many = "[job.a]\nlauncher = 'mpirun.mpich'\nranks = 1\nprogram = 'sh'\ncores = 6\n\
                [job.b]\nlauncher = 'mpirun.mpich'\nranks = 1\nprogram = 'sh'\ncores = 3\n";
    assert_eq!(planned(many, &[]).unwrap_err(), ["10: too many cores: 'a' 6, 'b' 3 make 9, and 8 may be used here"]);
}

#[test]
fn what_reaches_other_hosts_is_found_beforehand() {
    let at = |ssh: &str| {
        let text = format!("naming = 'tcp://a:1'\nssh = '{ssh}'\n{}", job("mpirun.mpich", "host = 'n1'"));
        planned(&text, &[]).map(|jobs| jobs[0].words(&[])[..2].join(" "))
    };
    assert_eq!(at("bin/sh -e"), Ok("/bin/sh -e".to_owned()), "a path counts from the manifest's folder");
    let found = at("sh -e").unwrap();
    assert!(found.starts_with('/') && found.ends_with("/sh -e"), "{found}");
    assert_eq!(at("bin/none"), Err(vec!["2: ssh: there is no program /bin/none".to_owned()]));
    assert_eq!(at("no-such-ssh -v"), Err(vec!["2: ssh: no program 'no-such-ssh' in PATH".to_owned()]));
}

#[test]
fn nothing_of_other_launchers_reaches_a_job() {
    let foreign = [
        "PMI_RANK",
        "PMIX_NAMESPACE",
        "OMPI_COMM_WORLD_RANK",
        "SLURM_PROCID",
        "SLURM_STEP_ID",
        "HYDI_CONTROL_FD",
        "LAMRANK",
    ];
    let kept =
        ["SLURM_JOB_ID", "OMPI_MCA_btl", "I_MPI_ROOT", "PATH", "LAM_MPI_SESSION_PREFIX", "OMPI_ALLOW_RUN_AS_ROOT"];
    let jobs =
        planned(&job("mpiexec.hydra", "env = { A = 'b c' }\ncores = '2,4-5'"), &[&foreign[..], &kept[..]].concat())
            .unwrap();
    assert_eq!(jobs[0].unset, foreign);
    let line = jobs[0].line(crate::run::quote);
    assert_eq!(
        line,
        "cd / && env -u PMI_RANK -u PMIX_NAMESPACE -u OMPI_COMM_WORLD_RANK -u SLURM_PROCID -u SLURM_STEP_ID -u HYDI_CONTROL_FD \
         -u LAMRANK 'A=b c' I_MPI_PIN=0 /bin/mpi-connect run --naming file:/names --run case7 --cores 2,4-5 --env A -- \
         mpiexec.hydra -np 2 sh -c true"
    );
}

/// One that a user has set stays.
#[test]
fn where_another_open_mpi_is_does_not_reach_a_job() {
    let unset = |variables: &[&str]| planned(&job("mpiexec.hydra", ""), variables).unwrap()[0].unset.clone();
    assert_eq!(unset(&["OPAL_PREFIX", "PRTE_LAUNCHED"]), ["OPAL_PREFIX"]);
    assert_eq!(unset(&["OPAL_PREFIX", "HOME"]), [""; 0]);
}

#[test]
fn launchers_are_told_of_their_part_of_an_allocation() {
    let line = |launcher: &str, slurm: &str, is_heterogeneous: bool| {
        let nodes = [["n0", "n1", "n2"], ["m0", "m1", "m2"]].map(|names| names.map(str::to_owned).to_vec());
        let components = if is_heterogeneous { nodes.to_vec() } else { nodes[..1].to_vec() };
        let allocation = Some(super::slurm::Allocation { components, is_heterogeneous });
        let text = job("srun", "slurm = { nodes = 1 }") + &job(launcher, slurm).replace(".air", ".ocean");
        let manifest = manifest::read(&text).unwrap();
        let jobs = plan(&manifest, &Place { allocation, ..place(&["SLURM_NTASKS", "SLURM_JOB_ID"]) });
        let jobs = jobs.map_err(|all| all.into_iter().map(|problem| problem.what).collect::<Vec<_>>().join("; "))?;
        assert_eq!(jobs[0].unset, ["SLURM_NTASKS"]);
        let words = jobs[1].words(&["W".into()]).join(" ");
        Ok(words.replace("/bin/mpi-connect run --naming file:/names --run case7 -- ", "").replace(" W sh -c true", ""))
    };
    let two = "slurm = { nodes = 2 }";
    for (launcher, slurm, said) in [
        ("srun --mpi=pmix", two, "srun --nodes=2 --nodelist=n1,n2 --mpi=pmix -n 2"),
        ("srun", "slurm = { nodes = 1 }", "srun --nodes=1 --nodelist=n1 -n 2"),
        ("srun", "", "srun --nodes=2 --nodelist=n1,n2 -n 2"),
        ("mpirun.openmpi", two, "mpirun.openmpi --bind-to none --host n1:1,n2:1 -np 2"),
        ("mpirun.mpich -l", two, "mpirun.mpich -hosts n1,n2 -ppn 1 -l -np 2"),
        ("start -h {nodes} {program}", two, "start -h n1,n2"),
    ] {
        assert_eq!(line(launcher, slurm, false), Ok(said.to_owned()));
    }
    assert_eq!(line("srun", "slurm = { het-group = 1 }", true), Ok("srun --het-group=1 -n 2".to_owned()));
    for (launcher, slurm, is_heterogeneous, said) in [
        ("mpirun.lam", two, false, "slurm: LAM's launcher goes where lamboot has said, so nodes cannot be given to it"),
        ("start {program}", two, false, "slurm: the launcher has to say where the nodes go: {nodes}"),
        (
            "srun",
            "slurm = { nodes = 2, het-group = 2 }",
            true,
            "slurm: component 2 of 2 is not there; they are counted from 0",
        ),
        (
            "mpirun.mpich",
            "slurm = { het-group = 1 }",
            true,
            "slurm: only srun reaches a component of a heterogeneous job that is not its first",
        ),
    ] {
        assert_eq!(line(launcher, slurm, is_heterogeneous), Err(format!("job 'ocean': {said}")));
    }
    let text = "launcher: {nodes} is filled in where the job has nodes of an allocation of Slurm";
    assert_eq!(planned(&job("start {nodes} {program}", ""), &[]).unwrap_err(), [format!("2: job 'air': {text}")]);
}
