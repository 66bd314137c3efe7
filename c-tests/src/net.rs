//! Two network namespaces with one link between them that works, and links that lead nowhere.

use std::process::Command;

/// Two hosts, as far as the network goes. Removed when dropped.
pub struct TwoHosts {
    names: [String; 2],
    /// The addresses by which they reach each other.
    pub addresses: [&'static str; 2],
}

fn ip(words: &str) -> Result<(), String> {
    let done = Command::new("ip").args(words.split_whitespace()).output().map_err(|e| format!("ip: {e}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&done.stderr).trim()))
}

impl TwoHosts {
    /// `Err` says why namespaces cannot be made here.
    ///
    /// Beside the link that works, each has two that mislead, both listed first:
    /// - `docker0` with the same address on both sides, so that dialling it reaches oneself;
    /// - `dead0` with different addresses of one subnet, where what is sent vanishes.
    pub fn new() -> Result<TwoHosts, String> {
        let pid = std::process::id();
        let names = [format!("mpic{pid}a"), format!("mpic{pid}b")];
        // From here on dropping cleans up, however far it went.
        let hosts = TwoHosts { names, addresses: ["10.77.31.1", "10.77.31.2"] };
        for (k, name) in hosts.names.iter().enumerate() {
            let (mine, other) = (k + 1, 2 - k);
            ip(&format!("netns add {name}"))?;
            let inside = |words: &str| ip(&format!("-n {name} {words}"));
            inside("link set lo up")?;
            inside("link add docker0 type veth peer name void0")?;
            inside("addr add 172.17.0.1/16 dev docker0")?;
            inside("link add dead0 type veth peer name void1")?;
            inside(&format!("addr add 192.168.77.{mine}/24 dev dead0"))?;
            for link in ["docker0", "void0", "dead0", "void1"] {
                inside(&format!("link set {link} up"))?;
            }
            // The neighbour seems known, so nothing says early that it cannot be reached.
            inside(&format!("neigh add 192.168.77.{other} lladdr 02:00:00:00:00:99 dev dead0"))?;
        }
        let [a, b] = &hosts.names;
        ip(&format!("link add live0 netns {a} type veth peer name live0 netns {b}"))?;
        for (name, address) in hosts.names.iter().zip(hosts.addresses) {
            ip(&format!("-n {name} addr add {address}/24 dev live0"))?;
            ip(&format!("-n {name} link set live0 up"))?;
        }
        Ok(hosts)
    }

    /// The command that runs something on host 0 or 1.
    pub fn on(&self, host: usize) -> Vec<String> {
        ["ip", "netns", "exec", &self.names[host]].map(String::from).to_vec()
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
