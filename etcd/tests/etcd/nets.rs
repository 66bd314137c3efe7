//! Network namespaces: a hub, where this process is, and sites with an address each. They end with this process.

use crate::kit::{Site, wait_until};
use std::process::{Child, Command, Stdio};

/// A command that runs this program where it may make namespaces, as the first process of its own; `None` if it may not.
pub fn hub() -> Option<Command> {
    let words = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    // Root needs no namespace of users.
    let words = if nix::unistd::geteuid().is_root() { &words[2..] } else { &words[..] };
    let tried = Command::new("unshare").args(words).args(["ip", "link", "add", "br0", "type", "bridge"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(words).arg(std::env::current_exe().unwrap());
    Some(command)
}

/// Sites at a bridge.
pub struct Nets {
    keepers: Vec<Child>,
}

fn run(words: &[&str]) {
    let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Nets {
    /// This process is in the hub.
    pub fn make(sites: usize) -> Nets {
        run(&["ip", "link", "set", "lo", "up"]);
        run(&["ip", "link", "add", "br0", "type", "bridge"]);
        run(&["ip", "address", "add", "10.77.0.1/24", "dev", "br0"]);
        run(&["ip", "link", "set", "br0", "up"]);
        let mut nets = Nets { keepers: Vec::new() };
        for i in 0..sites {
            let mut command = Command::new("unshare");
            command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null()).stdout(Stdio::null());
            let keeper = command.spawn().unwrap();
            let (here, there) = ("/proc/self/ns/net".to_owned(), format!("/proc/{}/ns/net", keeper.id()));
            wait_until("a namespace", || std::fs::read_link(&here).unwrap() != std::fs::read_link(&there).unwrap());
            let pid = keeper.id().to_string();
            nets.keepers.push(keeper);
            let (hub, site) = (format!("hub{i}"), format!("site{i}"));
            run(&["ip", "link", "add", &hub, "type", "veth", "peer", "name", &site]);
            run(&["ip", "link", "set", &site, "netns", &pid]);
            run(&["ip", "link", "set", &hub, "master", "br0", "up"]);
            nets.at(i, &["ip", "address", "add", &format!("{}/24", host(i)), "dev", &site]);
            nets.at(i, &["ip", "link", "set", &site, "up"]);
            nets.at(i, &["ip", "link", "set", "lo", "up"]);
            nets.at(i, &["nft", "add table inet cut; add chain inet cut in { type filter hook input priority 0; }"]);
        }
        nets
    }

    fn at(&self, site: usize, words: &[&str]) {
        let before = self.before(site);
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        run(&[&before[..], words].concat());
    }

    fn before(&self, site: usize) -> Vec<String> {
        ["nsenter", "--net", "--target", &self.keepers[site].id().to_string()].map(str::to_owned).to_vec()
    }

    pub fn site(&self, site: usize) -> Site {
        Site { host: host(site), before: self.before(site) }
    }

    /// Nothing goes there or comes from there, and nobody is told.
    pub fn isolate(&self, site: usize) {
        run(&["ip", "link", "set", &format!("hub{site}"), "down"]);
    }

    /// The site hears nothing from those.
    pub fn deafen(&self, site: usize, to: &[usize]) {
        for other in to {
            self.at(site, &["nft", "add", "rule", "inet", "cut", "in", "ip", "saddr", &host(*other), "drop"]);
        }
    }

    /// As it was.
    pub fn heal(&self, site: usize) {
        run(&["ip", "link", "set", &format!("hub{site}"), "up"]);
        self.at(site, &["nft", "flush", "chain", "inet", "cut", "in"]);
    }
}

impl Drop for Nets {
    fn drop(&mut self) {
        for keeper in &mut self.keepers {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }
}

fn host(site: usize) -> String {
    format!("10.77.0.{}", 10 + site)
}
