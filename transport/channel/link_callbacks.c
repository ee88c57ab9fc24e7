/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of channel functions that links call: see link.h. */
#include "channel.h"

const struct rcmi_link_above rcmi_channels_for_links = {
    .on_open = rcmi_channel_on_open,
    .on_ack = rcmi_channel_on_ack,
    .on_close = rcmi_channel_on_close,
    .link_up = rcmi_channels_link_up,
    .link_down = rcmi_channels_link_down,
    .forget = rcmi_opening_forget,
};
