//! Two network namespaces that stand for two hosts, and what can be wrong between them: links that lead nowhere, firewalls,
//! addresses of other kinds. Removed when dropped, with all that was made in them.

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt};
use nix::sys::time::TimeVal;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

/// Two hosts, as far as the network goes; and further ones, where a test wants them.
pub struct TwoHosts {
    names: [String; 4],
}

/// The addresses by which they reach each other.
pub const ADDRESSES: [&str; 2] = ["10.77.31.1", "10.77.31.2"];
pub const ADDRESSES_6: [&str; 2] = ["fd77:31::1", "fd77:31::2"];
/// Where hosts 0 and 1 reach their gateways, and where two gateways reach each other.
pub const GATEWAYS: [&str; 2] = ["10.77.41.254", "10.77.42.254"];
pub const BETWEEN_GATEWAYS: [&str; 2] = ["10.77.43.1", "10.77.43.2"];
/// Where the third host reaches the first one.
pub const ADDRESS_TO_THIRD: &str = "10.77.32.1";

/// What a firewall does with what it does not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Drop,
    /// As if nobody listened there.
    Reset,
    /// "Port unreachable", by ICMP.
    Unreachable,
    /// "Administratively prohibited", by ICMP.
    Prohibited,
}

impl Verdict {
    pub const ALL: [Verdict; 4] = [Verdict::Drop, Verdict::Reset, Verdict::Unreachable, Verdict::Prohibited];

    fn rule(self) -> &'static str {
        match self {
            Verdict::Drop => "drop",
            Verdict::Reset => "meta l4proto tcp reject with tcp reset",
            Verdict::Unreachable => "reject with icmpx type port-unreachable",
            Verdict::Prohibited => "reject with icmpx type admin-prohibited",
        }
    }
}

fn run(command: &mut Command, input: &str) -> Result<(), String> {
    let name = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{name}: {e}"))?;
    let written = child.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
    let done = child.wait_with_output().map_err(|e| format!("{name}: {e}"))?;
    if done.status.success() && written.is_none_or(|w| w.is_ok()) {
        return Ok(());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&done.stderr).trim()))
}

fn ip(words: &str) -> Result<(), String> {
    run(Command::new("ip").args(words.split_whitespace()), "")
}

impl TwoHosts {
    /// Two hosts with loopback alone. `Err` says why namespaces cannot be made here.
    pub fn apart() -> Result<TwoHosts, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("mpic{}n{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // From here on dropping cleans up, however far it went.
        let hosts = TwoHosts { names: ["a", "b", "c", "d"].map(|host| format!("{id}{host}")) };
        (0..2).try_for_each(|host| hosts.add(host))?;
        Ok(hosts)
    }

    fn add(&self, host: usize) -> Result<(), String> {
        ip(&format!("netns add {}", self.names[host]))?;
        self.ip(host, "link set lo up")
    }

    /// A host 2, joined to host 0 alone by a link `third0`, where host 0 has [`ADDRESS_TO_THIRD`].
    pub fn third(&self) -> Result<(), String> {
        self.add(2)?;
        self.join_two("third0", [0, 2])?;
        self.ip(0, &format!("addr add {ADDRESS_TO_THIRD}/24 dev third0"))?;
        self.ip(2, "addr add 10.77.32.3/24 dev third0")
    }

    /// Hosts 0 and 1 cannot reach each other. Host 2 is the gateway of both; or, if there are `two`, host 2 is that of host 0 and
    /// host 3 that of host 1, and the gateways are joined.
    pub fn behind_gateways(two: bool) -> Result<TwoHosts, String> {
        let hosts = TwoHosts::apart()?;
        let gateways = [2, if two { 3 } else { 2 }];
        hosts.add(2)?;
        if two {
            hosts.add(3)?;
            hosts.join_two("gates0", [2, 3])?;
            for (host, address) in gateways.into_iter().zip(BETWEEN_GATEWAYS) {
                hosts.ip(host, &format!("addr add {address}/24 dev gates0"))?;
            }
        }
        for (host, gateway) in gateways.into_iter().enumerate() {
            let link = format!("gate{host}");
            hosts.join_two(&link, [host, gateway])?;
            hosts.ip(host, &format!("addr add 10.77.4{}.1/24 dev {link}", host + 1))?;
            hosts.ip(gateway, &format!("addr add {}/24 dev {link}", GATEWAYS[host]))?;
            // As if it led everywhere; a gateway forwards nothing.
            hosts.ip(host, &format!("route add default via {}", GATEWAYS[host]))?;
            let words = hosts.on(gateway);
            let off = ["sysctl", "-q", "-w", "net.ipv4.ip_forward=0"];
            run(Command::new(&words[0]).args(&words[1..]).args(off), "")?;
        }
        Ok(hosts)
    }

    /// `docker0` as it is where containers run: a bridge that has a carrier, and whose only port leads to a guest.
    pub fn guests(&self, host: usize, address: &str) -> Result<(), String> {
        self.ip(host, "link add guest0 type veth peer name guest0-end")?;
        self.ip(host, "link add docker0 type bridge")?;
        self.ip(host, "link set guest0 master docker0")?;
        for link in ["guest0", "guest0-end", "docker0"] {
            self.ip(host, &format!("link set {link} up"))?;
        }
        self.ip(host, &format!("addr add {address} dev docker0"))
    }

    /// Joined by a link `live0` without addresses.
    pub fn joined() -> Result<TwoHosts, String> {
        let hosts = TwoHosts::apart()?;
        hosts.join("live0")?;
        Ok(hosts)
    }

    /// Joined by a link `live0` with [`ADDRESSES`].
    pub fn linked() -> Result<TwoHosts, String> {
        let hosts = TwoHosts::joined()?;
        hosts.address_4()?;
        Ok(hosts)
    }

    /// Like [`TwoHosts::linked`], and one of them lets nobody in.
    pub fn one_way(closed: usize, verdict: Verdict) -> Result<TwoHosts, String> {
        let hosts = TwoHosts::linked()?;
        hosts.firewall(closed, "", verdict)?;
        Ok(hosts)
    }

    /// Beside the link that works, each has two that mislead, both listed first:
    /// - `docker0` with the same address on both sides, so that dialling it reaches oneself;
    /// - `dead0` with different addresses of one subnet, where what is sent vanishes.
    pub fn misled() -> Result<TwoHosts, String> {
        let hosts = TwoHosts::apart()?;
        hosts.docker()?;
        for host in 0..2 {
            hosts.stray(host, "dead0", &format!("192.168.77.{}/24", host + 1))?;
            // The neighbour seems known, so nothing says early that it cannot be reached.
            hosts.ip(host, &format!("neigh add 192.168.77.{} lladdr 02:00:00:00:00:99 dev dead0", 2 - host))?;
        }
        hosts.join("live0")?;
        hosts.address_4()?;
        Ok(hosts)
    }

    /// A link between the two: up, without addresses, also without those that the kernel would give it.
    pub fn join(&self, link: &str) -> Result<(), String> {
        self.join_two(link, [0, 1])
    }

    fn join_two(&self, link: &str, hosts: [usize; 2]) -> Result<(), String> {
        let [a, b] = hosts.map(|host| &self.names[host]);
        ip(&format!("link add {link} netns {a} type veth peer name {link} netns {b}"))?;
        for host in hosts {
            self.ip(host, &format!("link set {link} addrgenmode none"))?;
            self.ip(host, &format!("link set {link} up"))?;
        }
        Ok(())
    }

    fn address_4(&self) -> Result<(), String> {
        (0..2).try_for_each(|host| self.ip(host, &format!("addr add {}/24 dev live0", ADDRESSES[host])))
    }

    /// Gives the link [`ADDRESSES_6`].
    pub fn address_6(&self) -> Result<(), String> {
        (0..2).try_for_each(|host| self.ip(host, &format!("addr add {}/64 dev live0 nodad", ADDRESSES_6[host])))
    }

    /// `docker0` with the same address on both hosts.
    pub fn docker(&self) -> Result<(), String> {
        (0..2).try_for_each(|host| self.stray(host, "docker0", "172.17.0.1/16"))
    }

    /// An interface whose other end is nobody's.
    pub fn stray(&self, host: usize, link: &str, address: &str) -> Result<(), String> {
        self.ip(host, &format!("link add {link} type veth peer name {link}-end"))?;
        for end in [link.to_owned(), format!("{link}-end")] {
            self.ip(host, &format!("link set {end} addrgenmode none"))?;
            self.ip(host, &format!("link set {end} up"))?;
        }
        self.ip(host, &format!("addr add {address} dev {link}"))
    }

    /// Interfaces that look useful, each with an address in a network of its own, and lead nowhere. `arp`: not even by
    /// their looks would they lead anywhere, like `dummy0`.
    pub fn strays(&self, host: usize, count: usize, arp: bool) -> Result<(), String> {
        let mut lines = String::new();
        let arp = if arp { "on" } else { "off" };
        for n in 0..count {
            let last = host + 1;
            lines += &format!("link add pad{n} type veth peer name pad{n}-end\nlink set pad{n}-end up\n");
            lines += &format!("link set pad{n} up arp {arp} multicast {arp}\naddr add 10.{n}.0.{last}/24 dev pad{n}\n");
        }
        self.ip_batch(host, &lines)
    }

    /// `ip` on host 0 or 1.
    pub fn ip(&self, host: usize, words: &str) -> Result<(), String> {
        ip(&format!("-n {} {words}", self.names[host]))
    }

    /// Many of them at once: one `ip` command a line.
    fn ip_batch(&self, host: usize, lines: &str) -> Result<(), String> {
        run(Command::new("ip").args(["-n", &self.names[host], "-batch", "-"]), lines)
    }

    /// A firewall on `live0` of this host: of new connections that come in, only those that match `allowed` (rules of
    /// nftables, such as `tcp dport 4000-4010`; none if empty) get through.
    pub fn firewall(&self, host: usize, allowed: &str, otherwise: Verdict) -> Result<(), String> {
        let allowed = if allowed.is_empty() { String::new() } else { format!("{allowed} accept") };
        let rules = format!(
            "table inet test {{
                 chain in {{
                     type filter hook input priority 0
                     iifname \"lo\" accept
                     ct state established,related accept
                     meta l4proto ipv6-icmp accept
                     {allowed}
                     {}
                 }}
             }}
",
            otherwise.rule()
        );
        self.nft(host, &rules)
    }

    /// No firewall any more.
    pub fn open(&self, host: usize) -> Result<(), String> {
        self.nft(host, "flush ruleset")
    }

    pub fn nft(&self, host: usize, rules: &str) -> Result<(), String> {
        let words = self.on(host);
        run(Command::new(&words[0]).args(&words[1..]).args(["nft", "-f", "-"]), rules)
    }

    /// The file of the namespace of host 0 or 1.
    pub fn namespace(&self, host: usize) -> PathBuf {
        Path::new("/run/netns").join(&self.names[host])
    }

    /// The command that runs something on host 0 or 1.
    pub fn on(&self, host: usize) -> Vec<String> {
        ["ip", "netns", "exec", &self.names[host]].map(String::from).to_vec()
    }

    /// Does something on one of the hosts, in a thread of its own.
    pub fn within<R: Send>(&self, host: usize, what: impl FnOnce() -> R + Send) -> R {
        let namespace = File::open(format!("/run/netns/{}", self.names[host])).expect("the host's namespace");
        let enter = || {
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("to enter the namespace");
            what()
        };
        std::thread::scope(|threads| threads.spawn(enter).join().expect("no panic on the host"))
    }

    /// Reads everything that comes to or leaves a host meanwhile, as somebody does who has its cables. The IPv4 addresses to
    /// which packets went in which `text` could be read.
    pub fn overhear<R>(&self, host: usize, text: &str, meanwhile: impl FnOnce() -> R) -> (R, BTreeSet<Ipv4Addr>) {
        let over = AtomicBool::new(false);
        let (ready, is_ready) = mpsc::channel();
        std::thread::scope(|threads| {
            let listener = threads.spawn(|| {
                let ready = ready;
                self.within(host, || listen(text.as_bytes(), &over, &ready))
            });
            is_ready.recv().expect("somebody listens");
            let result = meanwhile();
            over.store(true, Ordering::Release);
            (result, listener.join().expect("it has listened"))
        })
    }
}

/// Reads all packets of this namespace until it is over, and none is left.
fn listen(text: &[u8], over: &AtomicBool, ready: &mpsc::Sender<()>) -> BTreeSet<Ipv4Addr> {
    const ETHERNET: usize = 14;
    let all = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll).expect("a socket");
    setsockopt(&all, sockopt::RcvBufForce, &(64 << 20)).expect("room for packets");
    setsockopt(&all, sockopt::ReceiveTimeout, &TimeVal::new(0, 50_000)).expect("a limit");
    ready.send(()).expect("somebody waits");
    let mut packet = vec![0; 1 << 17];
    let mut read = BTreeSet::new();
    loop {
        match recv(all.as_raw_fd(), &mut packet, MsgFlags::empty()) {
            Ok(n) if packet[..n].windows(text.len()).any(|part| part == text) => {
                let to: [u8; 4] = packet[ETHERNET + 16..ETHERNET + 20].try_into().expect("four");
                read.insert(to.into());
            }
            Ok(_) => (),
            Err(_) if over.load(Ordering::Acquire) => return read,
            Err(_) => (),
        }
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        for name in &self.names {
            // One that was never made needs no removal.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// What the system says where there are no rights, or no such thing in the kernel. Anything else is a mistake.
const CANNOT: [&str; 6] = [
    "Operation not permitted",
    "Permission denied",
    "Unknown device type",
    "No such device",
    "os error 2",
    "not supported",
];

/// Whether this says that there are no rights, or no such thing in the kernel.
pub fn cannot(why: &str) -> bool {
    CANNOT.iter().any(|cannot| why.contains(cannot))
}

/// The hosts, or a printed reason why there are none.
#[track_caller]
pub fn or_skip(made: Result<TwoHosts, String>) -> Option<TwoHosts> {
    match made {
        Ok(hosts) => Some(hosts),
        Err(why) if cannot(&why) => {
            println!("SKIPPED: no such network here: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}
