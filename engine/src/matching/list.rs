//! Doubly linked lists through the nodes of one vector. A node can be in several lists. So both queues of matching can
//! remove an entry from the middle of all its lists at once, and use its place again.
//!
//! Invariant: a node that is in use is in the lists that its owner has put it in, and in no other.

/// Stands for no node.
const NONE: u32 = u32::MAX;

/// The ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NONE, tail: NONE }
    }
}

impl List {
    pub fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }
}

/// The neighbours of a node in one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    prev: u32,
    next: u32,
}

impl Default for Link {
    fn default() -> Self {
        Link { prev: NONE, next: NONE }
    }
}

#[derive(Clone, Debug)]
struct Node<T, L> {
    value: T,
    links: L,
}

/// The nodes. `L` is an array of links, one for each list that a node may be in.
#[derive(Clone, Debug)]
pub(super) struct Nodes<T, L> {
    nodes: Vec<Node<T, L>>,
    /// The first vacant node. The others follow by their first link.
    vacant: u32,
    len: usize,
}

impl<T, L> Default for Nodes<T, L> {
    fn default() -> Self {
        Nodes { nodes: Vec::new(), vacant: NONE, len: 0 }
    }
}

impl<T, L: Default + AsRef<[Link]> + AsMut<[Link]>> Nodes<T, L> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        let at = self.vacant;
        if let Some(node) = self.nodes.get_mut(at as usize) {
            self.vacant = node.links.as_ref()[0].next;
            node.value = value;
            return at;
        }
        self.nodes.push(Node { value, links: L::default() });
        (self.nodes.len() - 1) as u32
    }

    pub fn get(&self, at: u32) -> &T {
        &self.nodes[at as usize].value
    }

    pub fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.nodes[at as usize].value
    }

    /// Makes a node vacant. It must be in no list. Its value stays until the node is used again.
    pub fn release(&mut self, at: u32) {
        self.len -= 1;
        self.nodes[at as usize].links.as_mut()[0].next = self.vacant;
        self.vacant = at;
    }

    /// When no node is in use: the next ones are taken one behind the other again, however these were released. So nodes that are used
    /// in their order lie in that order.
    pub fn reset(&mut self) {
        debug_assert_eq!(self.len, 0);
        self.nodes.clear();
        self.vacant = NONE;
    }

    /// Appends a node to a list, which goes by the links `which`.
    pub fn append(&mut self, list: &mut List, which: usize, at: u32) {
        self.nodes[at as usize].links.as_mut()[which] = Link { prev: list.tail, next: NONE };
        match self.nodes.get_mut(list.tail as usize) {
            Some(last) => last.links.as_mut()[which].next = at,
            None => list.head = at,
        }
        list.tail = at;
    }

    /// Removes a node from a list.
    pub fn unlink(&mut self, list: &mut List, which: usize, at: u32) {
        let Link { prev, next } = self.nodes[at as usize].links.as_ref()[which];
        match self.nodes.get_mut(prev as usize) {
            Some(node) => node.links.as_mut()[which].next = next,
            None => list.head = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.links.as_mut()[which].prev = prev,
            None => list.tail = prev,
        }
    }

    pub fn next(&self, which: usize, at: u32) -> Option<u32> {
        let next = self.nodes[at as usize].links.as_ref()[which].next;
        (next != NONE).then_some(next)
    }

    /// The nodes of a list, in order.
    pub fn iter(&self, list: List, which: usize) -> impl Iterator<Item = (u32, &T)> {
        std::iter::successors(list.first(), move |at| self.next(which, *at)).map(|at| (at, self.get(at)))
    }
}
