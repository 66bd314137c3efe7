//! `liar NAME OF TO`: a process that has the key, and claims to be the job OF. It registers NAME as OF's group, and comes to the
//! job TO as OF's leader. Then it writes the sign "lying", and stays until it is killed.

use base::ProcId;
use base::bytes::Take;
use naming::{Kind, Naming, Record};
use node::{Config, Contact, Group, Node};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// Asks until there is an answer.
fn await_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn find(naming: &dyn Naming, name: &str) -> Record {
    await_some(name, || naming.lookup(Kind::Job, name).expect("a naming service that answers"))
}

fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [name, of, to] = &words[..] else { panic!("liar NAME OF TO") };
    let node = Node::start(Config::default()).expect("a node");
    let naming = naming::open(&naming::default_url().expect("a URL")).expect("a naming service");
    let (of, to) = (find(&*naming, of), find(&*naming, to));
    let us = ProcId { incarnation: of.incarnation, rank: 0 };
    node.add_group(Group { incarnation: us.incarnation, cookie: of.cookie, rank: us.rank, size: 1 });
    let mut leader = Vec::new();
    node.contact().encode(&mut leader);
    let record =
        Record { incarnation: of.incarnation, cookie: of.cookie, leader, mpi: "none".into(), ..Record::new(name) };
    let _claim = naming.claim(&record).expect("a free name");
    let contact = Contact::decode(&mut Take(&to.leader)).expect("a good record");
    let path = node.open_control(us, ProcId { incarnation: to.incarnation, rank: 0 }, to.cookie, &contact);
    await_some("a lane", || node.path_trouble(path).is_none().then_some(()));
    let folder = PathBuf::from(std::env::var_os("MPI_CONNECT_TEST_DIR").expect("the folder of the scene"));
    std::fs::write(folder.join("lying"), "").expect("a sign in it");
    loop {
        std::thread::park();
    }
}
