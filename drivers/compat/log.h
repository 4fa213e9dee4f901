/* SPDX-License-Identifier: GPL-2.0 */
/* In front of every C file: log lines begin with the module's name. */
#ifndef IW_MPA2_LOG_H
#define IW_MPA2_LOG_H
#define pr_fmt(fmt) "iw_mpa2: " fmt
#endif
