/* Numbers for random.c: those of the plan, which all ranks draw alike; those of layouts, which hang on the message and the
 * side alone, since what a rank writes down shows them; those of taste, by which a rank chooses among calls that have
 * the same outcome. Each thread draws its own. */
#ifndef RANDOM_DRAW_H
#define RANDOM_DRAW_H

static __thread uint64_t draw_state, layout_state, taste_state;

static unsigned random_next(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t z = (*state ^ (*state >> 31)) * 0xBF58476D1CE4E5B9u;
    return (unsigned)((z >> 33) % below);
}

static unsigned draw(unsigned below) { return random_next(&draw_state, below); }
static unsigned layout(unsigned below) { return random_next(&layout_state, below); }
static unsigned taste(unsigned below) { return random_next(&taste_state, below); }

#endif
