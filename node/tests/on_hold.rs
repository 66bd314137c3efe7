//! Functions that are called around a hold: when no lane is left, and before there is one again.

mod common;
use common::operators::{SECRET, give, request};
use common::*;
use node::figures::{Answer, Command, What};
use node::{Function, Hold, InterId, OnHold, Outcome, ProcId};
use std::sync::{Arc, Mutex};

/// What was called, in order.
type Called = Arc<Mutex<Vec<String>>>;

struct Ends {
    a: Job,
    b: Job,
    to_b: InterId,
    to_a: InterId,
    called: Called,
}

impl Ends {
    fn new() -> Ends {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let ends = Ends { a, b, to_b, to_a, called: Called::default() };
        ends.exchange();
        ends
    }

    /// One message each way.
    fn exchange(&self) {
        for (from, to) in [((&self.a, self.to_b), (&self.b, self.to_a)), ((&self.b, self.to_a), (&self.a, self.to_b))] {
            let mut space = [0; 8];
            let recv = to.0.recv(to.1, 1, &mut space);
            let send = from.0.send(from.1, 1, b"a letter");
            assert_eq!(to.0.wait(recv), got(8, 1));
            assert_eq!(from.0.wait(send), Outcome::Sent);
        }
    }

    /// A function that notes this word, and that there is no lane; then it does `then`.
    fn function(&self, word: &str, then: impl Fn(&node::Node) + Send + Sync + 'static) -> Option<Function> {
        let (called, node, word) = (self.called.clone(), Arc::downgrade(&self.a.node), word.to_owned());
        let (a, b): (ProcId, ProcId) = (self.a.id(), self.b.id());
        Some(Arc::new(move || {
            let node = node.upgrade().expect("the node calls it");
            let lane = if node.inspect(|core| core.cut(a, b)) { " with a lane" } else { "" };
            called.lock().unwrap().push(format!("{word}{lane}"));
            then(&node);
        }))
    }

    fn register(&self, number: u32) {
        let held = self.function(&format!("held {number}"), |_| ());
        let resuming = self.function(&format!("resuming {number}"), |_| ());
        self.on_hold(OnHold::new(held, resuming));
    }

    fn on_hold(&self, pair: OnHold) {
        self.a.node.inspect(|core| core.on_hold(pair));
    }

    /// What was called since.
    fn called(&self) -> Vec<String> {
        std::mem::take(&mut self.called.lock().unwrap())
    }
}

fn called_in_order() {
    let ends = Ends::new();
    ends.register(1);
    ends.register(2);
    for _ in 0..5 {
        assert_eq!(ends.a.node.hold(), 0);
        assert_eq!(ends.called(), ["held 1", "held 2"]);
        assert_eq!(ends.a.node.hold(), 0, "it is held already");
        ends.a.node.resume();
        assert_eq!(ends.called(), ["resuming 2", "resuming 1"]);
        ends.a.node.resume();
        ends.exchange();
        assert!(ends.called().is_empty());
    }
    // Nobody has been told that it is held.
    ends.a.node.inspect(|core| {
        core.hold();
        core.resume();
    });
    ends.exchange();
    assert!(ends.called().is_empty());
    // One that comes late is not told of the end of a hold of whose begin it was not told.
    assert_eq!(ends.a.node.hold(), 0);
    ends.register(3);
    ends.a.node.resume();
    assert_eq!(ends.called(), ["held 1", "held 2", "resuming 2", "resuming 1"]);
    // Who ends while it is held comes back first.
    assert_eq!(ends.a.node.hold(), 0);
    let drained = std::thread::scope(|scope| {
        let other = scope.spawn(|| ends.b.node.drain(LONG));
        ends.a.node.drain(LONG) + other.join().unwrap()
    });
    assert_eq!(drained, 0);
    assert_eq!(ends.called(), ["held 1", "held 2", "held 3", "resuming 3", "resuming 2", "resuming 1"]);
}

/// A tool makes its image in the first function, and has the process come back from there.
fn orders_of_functions_are_done_behind_them() {
    let ends = Ends::new();
    ends.on_hold(OnHold::new(ends.function("image", |node| node.resume()), None));
    ends.register(1);
    for _ in 0..5 {
        ends.a.node.hold();
        ends.exchange();
        assert_eq!(ends.called(), ["image", "held 1", "resuming 1"]);
        assert_eq!(ends.a.node.inspect(|core| core.is_held()), Hold::No);
    }
    let ends = Ends::new();
    let left = Mutex::new(2);
    let again = move |node: &node::Node| {
        let mut left = left.lock().unwrap();
        if *left > 0 {
            *left -= 1;
            assert_eq!(node.hold(), 0);
        }
    };
    ends.on_hold(OnHold::new(ends.function("held", |_| ()), ends.function("resuming", again)));
    assert_eq!(ends.a.node.hold(), 0);
    assert_eq!(ends.called(), ["held"]);
    for _ in 0..2 {
        // It is held once more when it has come back.
        ends.a.node.resume();
        assert_eq!(ends.a.node.hold(), 0);
        assert_eq!(ends.called(), ["resuming", "held"]);
    }
    ends.a.node.resume();
    ends.exchange();
    assert_eq!(ends.called(), ["resuming"]);
}

/// An operator who holds such a process is told that it was held.
#[test]
fn a_hold_that_ends_itself_is_done() {
    over(TCP);
    let ends = Ends::new();
    let incarnation = ends.a.group.incarnation;
    let name = format!("image{incarnation}");
    ends.a.node.lead(incarnation, &name, vec![ends.a.node.contact()], SECRET);
    ends.on_hold(OnHold::new(ends.function("image", |node| node.resume()), None));
    for id in 1..=5 {
        let answer = give(&ends.a.node.contact(), &request(&name, id, Command::Hold));
        assert!(
            matches!(&answer, Answer::Outcomes { outcomes, .. } if matches!(&outcomes[0].what, What::Done(_))),
            "{answer:?}"
        );
        ends.exchange();
        assert_eq!(ends.called(), ["image"]);
    }
}

over_both!(called_in_order, orders_of_functions_are_done_behind_them);
