/* What programs that make checkpoints see of their folder. Comes behind kit.h. */
#include <dirent.h>

/* Whether the folder of this job has a complete line. */
static int is_complete(const char *folder, const char *mine)
{
    char path[4096];
    int found = 0;
    snprintf(path, sizeof path, "%s/%s", folder, mine);
    DIR *lines = opendir(path);
    for (struct dirent *line; lines && (line = readdir(lines));)
        found |= !strncmp(line->d_name, "line-", 5) && !strstr(line->d_name, ".part");
    if (lines) closedir(lines);
    return found;
}

/* Waits until it has one. */
UNUSED static void await_line(const char *folder, const char *mine)
{
    double since = kit_ms();
    while (!is_complete(folder, mine) && kit_ms() - since < 20000) kit_sleep_ms(1);
    CHECK(is_complete(folder, mine));
}
