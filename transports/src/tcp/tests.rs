//! The conformance suite for TCP, with lanes of one connection and of several, plain and encrypted.

use super::address::address;
use crate::ip::start_connect;

crate::conformance::suite!(tcp, |place, _| start_connect(address(place).unwrap()));
crate::conformance::suite!(striped, tcp, |place, _| start_connect(address(place).unwrap()), |s| s.tcp.sockets = 3);
crate::conformance::suite!(
    encrypted,
    tcp,
    |place, _| start_connect(address(place).unwrap()),
    |_| (),
    trust::Encrypt::Always
);
crate::conformance::suite!(
    encrypted_and_striped,
    tcp,
    |place, _| start_connect(address(place).unwrap()),
    |s| s.tcp.sockets = 3,
    trust::Encrypt::Always
);
