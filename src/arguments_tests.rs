use super::*;

fn wanted(inherited: &str) -> Wanted {
    Wanted {
        preload: "/our.so".into(),
        inherited: inherited.into(),
        settings: vec![("MPI_CONNECT_IFACE".into(), "ib0,lo".into())],
        ..Wanted::default()
    }
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn line(kind: Kind, args: &str, inherited: &str) -> String {
    let built = build(kind, &words(args), &wanted(inherited)).unwrap();
    built.args.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_program_gets_the_environment() {
    for kind in [Kind::Plain, Kind::Unknown] {
        let built = build(kind, &words("-x LD_PRELOAD=/a.so"), &wanted("/b.so /our.so:/c.so")).unwrap();
        assert_eq!(built.args, words("-x LD_PRELOAD=/a.so"));
        let env: Vec<String> = built.env.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(env, ["MPI_CONNECT_IFACE=ib0,lo", "LD_PRELOAD=/our.so:/b.so:/c.so"]);
    }
}

#[test]
fn open_mpi_gets_x_for_every_program() {
    const OURS: &str = "-x LD_PRELOAD=/our.so -x MPI_CONNECT_IFACE=ib0,lo";
    for kind in [Kind::Orte, Kind::Prte] {
        assert_eq!(line(kind, "-n 2 ./a -v", ""), format!("{OURS} -n 2 ./a -v"));
        assert_eq!(line(kind, "-n 2 ./a : -n 1 ./b", ""), format!("{OURS} -n 2 ./a : {OURS} -n 1 ./b"));
        assert_eq!(line(kind, "", ""), OURS);
        assert_eq!(
            line(kind, "-n 1 ./a", "/asan.so"),
            "-x LD_PRELOAD=/our.so:/asan.so -x MPI_CONNECT_IFACE=ib0,lo -n 1 ./a"
        );
        assert_eq!(build(kind, &words("./a"), &wanted("")).unwrap().env, []);
    }
}

#[test]
fn open_mpi_users_own_x_stands_and_is_not_doubled() {
    assert_eq!(
        line(Kind::Prte, "-x LD_PRELOAD=/u.so -x MPI_CONNECT_IFACE=eth0 ./a : ./b", ""),
        "-x LD_PRELOAD=/our.so:/u.so -x MPI_CONNECT_IFACE=eth0 ./a : -x LD_PRELOAD=/our.so -x \
         MPI_CONNECT_IFACE=ib0,lo ./b"
    );
    assert_eq!(
        line(Kind::Orte, "-x LD_PRELOAD -x MPI_CONNECT_IFACE ./a", "/i.so"),
        "-x LD_PRELOAD=/our.so:/i.so -x MPI_CONNECT_IFACE ./a"
    );
}

#[test]
fn open_mpi_ways_that_do_not_lead_to_the_ranks_are_refused() {
    let refused = |kind, args: &str| build(kind, &words(args), &wanted("")).err();
    assert_eq!(refused(Kind::Orte, "--app file"), Some(BuildError::AppFile));
    assert_eq!(refused(Kind::Orte, "-app file"), Some(BuildError::AppFile));
    assert_eq!(refused(Kind::Prte, "--app file"), None);
    assert_eq!(refused(Kind::Orte, "--mca mca_base_env_list A=1 ./a"), Some(BuildError::EnvList));
    let set = Wanted { env_list: true, ..wanted("") };
    assert_eq!(build(Kind::Orte, &words("./a"), &set), Err(BuildError::EnvList));
}

#[test]
fn hydra_gets_genv_once() {
    const OURS: &str = "-genv LD_PRELOAD /our.so -genv MPI_CONNECT_IFACE ib0,lo";
    assert_eq!(line(Kind::Hydra, "-n 2 ./a : -n 1 ./b", ""), format!("{OURS} -n 2 ./a : -n 1 ./b"));
    assert_eq!(line(Kind::Hydra, "", ""), OURS);
    assert_eq!(
        line(Kind::Hydra, "-genv LD_PRELOAD /u.so -n 1 -env LD_PRELOAD=/v.so ./a", "/i.so"),
        "-genv LD_PRELOAD /our.so:/i.so -genv MPI_CONNECT_IFACE ib0,lo -genv LD_PRELOAD /our.so:/u.so -n 1 -env \
         LD_PRELOAD=/our.so:/v.so ./a"
    );
    // Cut off in the middle: hydra will complain, we do not.
    assert_eq!(line(Kind::Hydra, "-genv LD_PRELOAD", ""), format!("{OURS} -genv LD_PRELOAD"));
}

#[test]
fn srun_gets_one_export_list() {
    assert_eq!(line(Kind::Slurm, "-n 2 ./a", ""), "--export=ALL,LD_PRELOAD=/our.so -n 2 ./a");
    assert_eq!(line(Kind::Slurm, "--export=NONE ./a", ""), "--export=MPI_CONNECT_IFACE,LD_PRELOAD=/our.so ./a");
    assert_eq!(
        line(Kind::Slurm, "--export A,LD_PRELOAD=/u.so,MPI_CONNECT_IFACE=lo ./a", "/i.so"),
        "--export A,MPI_CONNECT_IFACE=lo,LD_PRELOAD=/our.so:/u.so ./a"
    );
    assert_eq!(
        line(Kind::Slurm, "./a : --export=ALL ./b", "/i.so"),
        "--export=ALL,LD_PRELOAD=/our.so:/i.so ./a : --export=ALL,LD_PRELOAD=/our.so:/i.so ./b"
    );
    let by_env = Wanted { slurm_export: Some("NIL".into()), ..wanted("") };
    let built = build(Kind::Slurm, &words("./a"), &by_env).unwrap();
    assert_eq!(built.args, words("--export=MPI_CONNECT_IFACE,LD_PRELOAD=/our.so ./a"));
    assert_eq!(built.env, by_env.settings, "by name, so srun has to have it");
    assert_eq!(build(Kind::Slurm, &words("./a"), &wanted("/a,b.so")), Err(BuildError::Comma));
}

#[test]
fn words_that_are_not_utf8_go_through() {
    use std::os::unix::ffi::OsStringExt;
    let odd = OsString::from_vec(vec![b'-', b'x', 0xff]);
    for kind in [Kind::Orte, Kind::Prte, Kind::Hydra, Kind::Slurm, Kind::Plain] {
        let built = build(kind, &[odd.clone(), "-x".into(), odd.clone()], &wanted("")).unwrap();
        assert_eq!(built.args.last(), Some(&odd));
    }
}

#[test]
fn lam_gets_one_x_for_all() {
    let plain = Wanted { settings: vec![("MPI_CONNECT_LOG".into(), "info".into())], ..wanted("") };
    let line = |args: &str| {
        let built = build(Kind::Lam, &words(args), &plain).unwrap();
        built.args.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("-np 2 ./a"), "-x LD_PRELOAD=/our.so,LD_BIND_NOW=1,MPI_CONNECT_LOG=info -np 2 ./a");
    assert_eq!(
        line("-np 2 -x LD_PRELOAD=/u.so,MINE=3,MPI_CONNECT_LOG ./a"),
        "-x MINE=3,MPI_CONNECT_LOG,LD_PRELOAD=/our.so:/u.so,LD_BIND_NOW=1 -np 2 ./a"
    );
    let list = |name: &str, value: &str| {
        let settings = vec![(name.into(), value.into())];
        build(Kind::Lam, &words("./a"), &Wanted { settings, ..wanted("") }).map(|b| b.args[1].clone())
    };
    let semicolons = list("MPI_CONNECT_NAMING", "tcp://a:1,b:2").unwrap();
    assert_eq!(semicolons, "LD_PRELOAD=/our.so,LD_BIND_NOW=1,MPI_CONNECT_NAMING=tcp://a:1;b:2");
    assert!(list("MPI_CONNECT_METADATA", "a=1,b=2").is_ok());
    assert!(list("MPI_CONNECT_NAMING", "file:/a,b").is_err());
    let comma = build(Kind::Lam, &words("-np 2 ./a"), &wanted(""));
    assert_eq!(comma, Err(BuildError::LamComma("MPI_CONNECT_IFACE".into())));
    let path = build(Kind::Lam, &words("./a"), &Wanted { preload: "/a,b.so".into(), ..plain });
    assert_eq!(path, Err(BuildError::LamComma(PRELOAD.into())));
    let cure = |error: Result<Built, BuildError>| error.unwrap_err().to_string();
    assert!(cure(comma).ends_with("set it for lamboot, whose daemon hands it to the ranks"));
    assert!(cure(path).ends_with("use a path without"));
}
