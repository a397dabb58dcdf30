// Text and name of each status of kvferry.h, for code that can't see the API's exports.
#pragma once

namespace kvf {

// Never null; static. An unknown status is "unknown status".
const char *status_text(int status);

// "KVF_ERR_PAGE"; "KVF_ERR_?" for an unknown one. Static.
const char *status_name(int status);

} // namespace kvf
