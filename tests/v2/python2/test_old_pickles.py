"""What Python 2 and the numpy of its time have written."""


def test_arrays_of_python2_pickles_load(python2, tmp_path):
    # cPickle.dumps({'w': np.array([1.5, 200], 'f4'), 'k': 'é'}, 2), with numpy 1.13.
    (tmp_path / "old").write_bytes(
        b"\x80\x02}q\x01(U\x01wq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04"
        b"K\x00\x85U\x01b\x87Rq\x05(K\x01K\x02\x85cnumpy\ndtype\nq\x06U\x02f4K\x00K\x01\x87Rq\x07"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08\x00\x00\xc0?\x00\x00HCtb"
        b"U\x01kU\x02\xc3\xa9u."
    )
    source = (
        "import cPickle\nf = open('old')\nd = cPickle.load(f)\nf.close()\nprint d['w'].tolist()"
    )
    assert python2(source) == "[1.5, 200.0]\n"


def test_text_of_python2_pickles_is_text(python2, tmp_path):
    # cPickle.dumps({'é': 1, 'b': u'é', 'c': '\xff'}, 2)
    (tmp_path / "old").write_bytes(
        b"\x80\x02}q\x01(U\x02\xc3\xa9q\x02K\x01U\x01bX\x02\x00\x00\x00\xc3\xa9U\x01cU\x01\xffu."
    )
    source = (
        "import pickle\nf = open('old')\nd = pickle.load(f)\nf.close()\n"
        "print d['é'], d['b'] == u'é', d['c'] == '\\xff'"
    )
    assert python2(source) == "1 True True\n"
