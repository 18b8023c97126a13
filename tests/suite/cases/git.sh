# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A program that is hard on a file system: git.
export GIT_CONFIG_GLOBAL=$TMPDIR/gitconfig GIT_CONFIG_NOSYSTEM=1
git config --global user.name tester && git config --global user.email tester@example.org
git config --global init.defaultBranch main && git config --global --add safe.directory '*'
# A repository to clone: 100 files, some history.
mkdir "$TMPDIR/repo" && cd "$TMPDIR/repo" && git init -q . || fail init
perl -MMIME::Base64 -e '
	open(my $r, "<", "/dev/urandom") or die;
	mkdir "dir$_" for 0..9;
	for my $i (1..100) {
		read($r, my $noise, $i * 97) == $i * 97 or die;
		open(my $f, ">", "dir" . $i % 10 . "/file$i") or die; print $f encode_base64($noise); close $f or die;
	}' || fail "files to commit"
git add . && git commit -qm one && git mv dir1/file1 dir2/moved && git commit -qm two && git gc -q || fail commit
mount_up
cd "$WORK" || fail cd
git clone -q "$TMPDIR/repo" clone || fail clone
git -C clone fsck --full --strict || fail fsck
[[ -z $(git -C clone status --porcelain) ]] || fail "the work tree is not clean"
( cd clone && git checkout -q -b work && sed -i s/A/B/ dir3/* && git commit -qam three && git rm -q dir4/* && git commit -qm four &&
	git checkout -q main && git merge -q work && git repack -qad && git fsck --full ) || fail "work in the clone"
equal "$(git -C "$SERVER_WORK/clone" rev-parse HEAD)" "$(git -C clone rev-parse HEAD)" "HEAD on the server"
diff -r clone/dir3 "$SERVER_WORK/clone/dir3" || fail "contents differ"
cd / && mount_down
