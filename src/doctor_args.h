/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The command doctor (doctor/doctor.h); argv[0] is "doctor". Returns the exit status. */
int doctor_args_main(int argc, char **argv);
