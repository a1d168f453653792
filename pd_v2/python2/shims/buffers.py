"""The modules StringIO and cStringIO."""

from pd_v2.python2.shims.files import Buffer

StringIO = Buffer
