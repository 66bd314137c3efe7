//! A process that has the key, and claims to be the job OF. It stays until it is killed.
//!
//! `liar NAME OF TO` registers NAME as OF's group, and comes to the job TO as OF's leader. Then it writes the sign "lying".
//! `liar port OF` calls the port of which the sign "port" has the name, as OF, of which it would be rank 1. It writes the sign "lying" when it
//! has been sent away.

use base::ProcId;
use base::bytes::Take;
use base::ident::random;
use c_tests::await_some;
use c_tests::ports::short;
use naming::{Kind, Naming, Record};
use node::leaders::{Party, Registered, Turn};
use node::{Config, Contact, Contacts, Group, Node, at_addresses};
use std::path::PathBuf;
use std::time::Duration;

/// That of this machine, as the protocol's description has it.
const REPRESENTATION: u32 = 0x2441_4880;
const LIMIT: Duration = Duration::from_secs(30);

fn find(naming: &dyn Naming, name: &str) -> Record {
    await_some(LIMIT, name, || naming.lookup(Kind::Job, name).expect("a naming service that answers"))
}

fn sign(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("MPI_CONNECT_TEST_DIR").expect("the folder of the scene")).join(name)
}

fn lies() -> ! {
    std::fs::write(sign("lying"), "").expect("a sign in the folder of the scene");
    loop {
        std::thread::park();
    }
}

fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let node = Node::start(Config::default()).expect("a node");
    let naming = naming::open(&naming::default_url().expect("a URL")).expect("a naming service");
    let find = |name: &str| find(&*naming, name);
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["port", of] => call_as(&node, &find(of)),
        [name, of, to] => {
            let _claim = come_as(&node, &*naming, name, &find(of), &find(to));
            lies();
        }
        _ => panic!("liar NAME OF TO, or liar port OF"),
    }
}

fn come_as(node: &Node, naming: &dyn Naming, name: &str, of: &Record, to: &Record) -> naming::Claim {
    let us = ProcId { incarnation: of.incarnation, rank: 0 };
    node.add_group(Group { incarnation: us.incarnation, cookie: of.cookie, rank: us.rank, size: 1 });
    let mut leader = Vec::new();
    node.contact().encode(&mut leader);
    let record =
        Record { incarnation: of.incarnation, cookie: of.cookie, leader, mpi: "none".into(), ..Record::new(name) };
    let claim = naming.claim(&record).expect("a free name");
    let contact = Contact::decode(&mut Take(&to.leader)).expect("a good record");
    let path = node.open_control(us, ProcId { incarnation: to.incarnation, rank: 0 }, to.cookie, &contact);
    await_some(LIMIT, "a lane", || node.path_trouble(path).is_none().then_some(()));
    claim
}

fn call_as(node: &Node, of: &Record) -> ! {
    let name = await_some(LIMIT, "the name of a port", || std::fs::read_to_string(sign("port")).ok());
    let (at, port, cookie) = short(&name);
    let (me, own_cookie) = (ProcId { incarnation: u64::from_le_bytes(random()), rank: 1 }, random());
    node.add_open_group(Group { incarnation: me.incarnation, cookie: own_cookie, rank: 1, size: 2 });
    let leader = Contact::decode(&mut Take(&of.leader)).expect("a good record");
    let records = Contacts::from(vec![leader, node.contact()]).bytes().to_vec();
    let path = node.open_control_to_port(me, port, cookie, &at_addresses([0; 16], [0; 16], &[at]));
    await_some(LIMIT, "a lane", || node.path_trouble(path).is_none().then_some(()));
    let offer = Party {
        incarnation: me.incarnation,
        cookie: own_cookie,
        size: 2,
        tag_ub: 1 << 20,
        representation: REPRESENTATION,
        registered: Some(Registered { incarnation: of.incarnation, cookie: of.cookie }),
        name: of.name.clone(),
        wanted: name,
        records,
    };
    node.with(|core| core.offer(path, false, &offer, None));
    await_some(LIMIT, "to be sent away", || match node.with(|core| core.talk(path)) {
        Turn::Agreed(_) => panic!("it was believed"),
        _ => (node.path_trouble(path).is_some() || node.path_gone(path).is_some()).then_some(()),
    });
    lies();
}
