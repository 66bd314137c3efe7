mod common;
use common::*;
#[test]
fn bw() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let data = pattern(256<<20, 1);
    let mut space = vec![1; 256<<20];
    for _ in 0..8 {
        let t = std::time::Instant::now();
        let recv = b.recv(to_a, 1, &mut space);
        let send = a.send(to_b, 1, &data);
        b.wait(recv);
        a.wait(send);
        println!("{:?} {} MB/s", t.elapsed(), 268.0 / t.elapsed().as_secs_f64());
    }
}
