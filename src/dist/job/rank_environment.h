/* Where this process stands among the others, and where they meet, as launchers and schedulers say it in the
 * environment. */
#ifndef TPI_DIST_RANK_ENVIRONMENT_H
#define TPI_DIST_RANK_ENVIRONMENT_H
#include <taper/dist.h>
#include "dist/store/store.h"

int tpi_env_int(const char *name); /* a whole number that is not negative; -1: there is none */
/* 1: the launcher says that all ranks are on this machine; 0: that they are not; -1: nobody says. */
int tpi_one_machine(void);
/* MASTER_ADDR and MASTER_PORT; or the first host of Slurm's or PBS's list, with ports made of the job's name. False:
 * nothing says (no error), or MASTER_PORT is no port. */
bool tpi_meeting_point(tpi_meeting *meeting);
#endif
