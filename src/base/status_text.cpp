// The status table of kvferry.h, unfolded into text and names.
#include "base/status_text.h"

#include <kvferry/kvferry.h>

namespace kvf {

const char *status_text(int status) {
    switch (status) {
#define KVF_STATUS_TEXT(name, value, text) \
    case value:                            \
        return text;
        KVF_STATUS_MAP(KVF_STATUS_TEXT)
#undef KVF_STATUS_TEXT
        default:
            return "unknown status";
    }
}

const char *status_name(int status) {
    switch (status) {
#define KVF_STATUS_NAME(name, value, text) \
    case value:                            \
        return "KVF_" #name;
        KVF_STATUS_MAP(KVF_STATUS_NAME)
#undef KVF_STATUS_NAME
        default:
            return "KVF_ERR_?";
    }
}

} // namespace kvf
