//! Which interfaces may lead to another host, by what the kernel tells of them in `/proc` and `/sys`.
//!
//! Used where the interfaces are listed. Invariant: what the kernel does not tell counts against no interface.

use std::fs;
use std::path::Path;

/// Where the kernel lists the interfaces of this network namespace.
pub(crate) const SYS: &str = "/sys/class/net";

/// The default routes of this machine: the interface that each goes over, and whether it is one of IPv6.
pub(crate) fn ways_out() -> Vec<(String, bool)> {
    let read = |table| fs::read_to_string(table).unwrap_or_default();
    routes(&read("/proc/self/net/route"), &read("/proc/self/net/ipv6_route"))
}

fn routes(v4: &str, v6: &str) -> Vec<(String, bool)> {
    let of = |table: &str, is_default: fn(&[&str]) -> bool, name: usize, is_v6: bool| {
        let fields = |line: &str| {
            let fields: Vec<_> = line.split_whitespace().collect();
            is_default(&fields).then(|| fields.get(name).map(|n| (n.to_string(), is_v6)))?
        };
        table.lines().filter_map(fields).collect::<Vec<_>>()
    };
    let mut out = of(v4, |f| f.get(1) == Some(&"00000000") && f.get(7) == Some(&"00000000"), 0, false);
    // For IPv6, loopback has a default route that rejects.
    out.extend(of(v6, |f| f.get(1) == Some(&"00") && f.get(9) != Some(&"lo"), 9, true));
    out
}

/// Whether an interface is there for guests of this host, such as containers and virtual machines: a bridge none of whose ports
/// stands on hardware, as `docker0` and `virbr0` have none, or itself a port of a bridge, whose own addresses nobody uses.
/// `sys` is [`SYS`].
pub(crate) fn is_for_guests(sys: &Path, name: &str) -> bool {
    let is = |name: &Path, what: &str| sys.join(name).join(what).exists();
    if is(name.as_ref(), "brport") {
        return true;
    }
    let Ok(mut ports) = fs::read_dir(sys.join(name).join("brif")) else { return false };
    !ports.any(|port| port.is_ok_and(|port| stands_on_hardware(sys, port.file_name().as_ref())))
}

/// Whether an interface is a device, or lies above another interface, as VLANs and bonds do. The ends of links to guests are
/// neither.
fn stands_on_hardware(sys: &Path, name: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(sys.join(name)) else { return false };
    entries.any(|entry| {
        entry.is_ok_and(|e| e.file_name() == "device" || e.file_name().to_string_lossy().starts_with("lower_"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_read() {
        let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                  eth0\t00000000\t0104000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 {zero} 00000400 1 0 00000003 eth1\n{zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n\
             fd{} 40 {zero} 00 {zero} 00000100 1 0 00000001 eth2\n",
            &zero[2..]
        );
        assert_eq!(routes(v4, &v6), [("eth0".into(), false), ("eth1".into(), true)]);
    }

    #[test]
    fn bridges_for_guests_are_known() {
        let sys = std::env::temp_dir().join(format!("mpi-connect-sys-{}", std::process::id()));
        for entry in [
            "eth0/device",
            "bond0/lower_eth0",
            // Of a machine, over a device and over a bond, beside a guest.
            "br0/bridge",
            "br0/brif/veth1",
            "br0/brif/eth0",
            "br1/brif/bond0",
            // Of guests.
            "docker0/bridge",
            "docker0/brif/veth1",
            "virbr0/brif",
            "veth1/brport",
            "veth1/upper_docker0",
            // An end of a link that is no bridge's port, as a container has it.
            "veth2/queues",
        ] {
            fs::create_dir_all(sys.join(entry)).unwrap();
        }
        let of_guests = ["docker0", "virbr0", "veth1"].map(|name| is_for_guests(&sys, name));
        let others = ["eth0", "bond0", "br0", "br1", "veth2", "unknown0"].map(|name| is_for_guests(&sys, name));
        fs::remove_dir_all(&sys).unwrap();
        assert_eq!((of_guests, others), ([true; 3], [false; 6]));
    }
}
