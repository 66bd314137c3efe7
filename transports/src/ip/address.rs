//! IP addresses as bytes, in entries of contact records and in places to be dialled.
//!
//! Pure. Invariant: an entry never holds more than [`MAX_ADDRESSES`]; of a malformed entry, the addresses before the error
//! count.

use base::bytes::{Malformed, Put, Take};
use base::protocol::address::{V4, V6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use wire::{Place, TransportId};

pub(crate) use base::protocol::address::MAX_ADDRESSES;

/// Writes addresses one after the other, as many as an entry may hold.
pub(crate) fn put_all(out: &mut Vec<u8>, addresses: &[SocketAddr]) {
    addresses.iter().take(MAX_ADDRESSES).for_each(|address| put(out, address));
}

/// The addresses that these bytes begin with.
pub(crate) fn take_all(bytes: &[u8]) -> Vec<SocketAddr> {
    let mut from = Take(bytes);
    std::iter::from_fn(|| take(&mut from).ok()).take(MAX_ADDRESSES).collect()
}

/// Writes an address: the family (4 or 6), its bytes, for 6 the scope as u32, the port as u16.
pub(crate) fn put(out: &mut Vec<u8>, address: &SocketAddr) {
    match address {
        SocketAddr::V4(a) => {
            out.put_u8(V4);
            out.extend_from_slice(&a.ip().octets());
        }
        SocketAddr::V6(a) => {
            out.put_u8(V6);
            out.extend_from_slice(&a.ip().octets());
            out.put_u32(a.scope_id());
        }
    }
    out.put_u16(address.port());
}

/// Takes an address off the front.
pub(crate) fn take(from: &mut Take<'_>) -> Result<SocketAddr, Malformed> {
    Ok(match from.u8()? {
        V4 => {
            let ip: IpAddr = Ipv4Addr::from(from.array::<4>()?).into();
            (ip, from.u16()?).into()
        }
        V6 => {
            let (ip, scope) = (Ipv6Addr::from(from.array::<16>()?), from.u32()?);
            SocketAddrV6::new(ip, from.u16()?, 0, scope).into()
        }
        _ => return Err(Malformed),
    })
}

/// Where a process is that is reached through what is at this address.
pub(crate) fn place_through(transport: TransportId, at: &SocketAddr, process: &[u8; 16], text: String) -> Place {
    let mut bytes = Vec::new();
    put(&mut bytes, at);
    bytes.extend_from_slice(process);
    Place { transport, address: bytes.into(), host_part: host_part(at), text: text.into() }
}

/// The address and the process of [`place_through`].
pub(crate) fn unplace_through(place: &Place) -> Option<(SocketAddr, [u8; 16])> {
    let mut from = Take(&place.address);
    let at = take(&mut from).ok()?;
    Some((at, from.array().ok()?))
}

/// The bytes of an address that are the same for all processes of a host.
pub(crate) fn host_part(address: &SocketAddr) -> u8 {
    if address.is_ipv4() { 5 } else { 17 }
}
