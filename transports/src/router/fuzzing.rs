//! What `fuzz/` needs of what is private: heads and bodies of frames, entries of contact records, and places.

use super::address::{entry, place, routers, unplace};
use super::frame::{HEAD, Head, Kind, Open, Why, credit, credited, whole};

/// Reads an input as each of them, and says whether what must hold does.
pub fn holds(input: &[u8]) -> bool {
    let head = input.first_chunk::<HEAD>().is_none_or(|head| Head::decode(head).map_or(true, |h| h.encode() == *head));
    let open = Open::decode(input).map_or(true, |open| open.encode() == input);
    let why = Why::decode(input).map_or(true, |why| why.encode() == input);
    let given = credited(input).map_or(true, |bytes| credit(bytes) == input);
    let found = routers(input);
    let leads = |router: &std::net::SocketAddr| unplace(&place(*router, &[7; 16])) == Some((*router, [7; 16]));
    head && open && why && given && routers(&entry(&found)) == found && found.iter().all(leads)
}

/// Inputs of the real encoders.
pub fn seeds() -> Vec<Vec<u8>> {
    let addresses = [([10, 0, 0, 1], 7433).into(), ([0xfe80, 0, 0, 0, 0, 0, 0, 1], 7433).into()];
    let routers = [None, Some(addresses[0]), Some(addresses[1])];
    let opens = routers.map(|router| Open { to: [1; 16], from: [2; 16], router }.encode());
    let whys = [Why::Over, Why::Gone, Why::NotThere, Why::NoRouter, Why::Full, Why::Dead, Why::Nobody]
        .map(|why| why.encode().to_vec());
    let frames = opens.iter().map(|body| whole(2, Kind::Open, body));
    let others = [whole(3, Kind::Data, &[9; 40]), whole(4, Kind::Credit, &credit(65_536)), whole(5, Kind::Close, &[1])];
    let bodies = [credit(65_536), entry(&addresses)];
    frames.chain(others).chain(bodies).chain(opens.clone()).chain(whys).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_seeds_hold() {
        assert!(super::seeds().iter().all(|seed| super::holds(seed)));
    }
}
