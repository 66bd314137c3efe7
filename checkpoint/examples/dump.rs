fn main() {
    for path in std::env::args().skip(1) {
        let image = checkpoint::Image::decode(&std::fs::read(&path).unwrap()).unwrap();
        println!("== {path} {:?}", image.head.label);
        for r in &image.remotes {
            for (rank, of) in &r.of {
                let kept: Vec<_> = of.line.kept.iter().map(|k| (k.number, k.source, k.tag, k.data.len())).collect();
                let leaving: Vec<_> = of.leaving.iter().map(|k| (k.number, k.tag, k.data.len())).collect();
                println!(
                    " {rank}: sent {:?} arrived {:?} kept {kept:?} wanted {:?} lacking {:?} leaving {leaving:?}",
                    of.sent, of.arrived, of.line.wanted, of.line.lacking
                );
            }
        }
        println!(" {:?}", image.outcomes);
    }
}
