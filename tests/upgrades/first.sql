BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE "intervals" (
	interval_id INTEGER NOT NULL, 
	rule VARCHAR NOT NULL, 
	source_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	start_s FLOAT NOT NULL, 
	deadline_s FLOAT, 
	probed_s FLOAT NOT NULL, 
	captured BOOLEAN NOT NULL, 
	exact BOOLEAN NOT NULL, 
	delay_s FLOAT NOT NULL, 
	PRIMARY KEY (interval_id)
);
INSERT INTO "intervals" VALUES(1,'R','s',7,1000000000.0,NULL,1000000000.0,1,1,3.0);
CREATE TABLE "items" (
	source_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	item_id TEXT NOT NULL, 
	content_hash VARCHAR NOT NULL, 
	fields TEXT NOT NULL, 
	published_s FLOAT, 
	event_s FLOAT NOT NULL, 
	seen_s FLOAT NOT NULL, 
	present_s FLOAT NOT NULL, 
	exact BOOLEAN NOT NULL, 
	seed BOOLEAN NOT NULL, 
	PRIMARY KEY (source_id, seq), 
	CONSTRAINT uq_items_identity UNIQUE (source_id, item_id)
);
INSERT INTO "items" VALUES('s',7,'guid:7','h','{"title": "Žluťoučký"}',NULL,1000000000.0,1000000000.0,1000000000.0,1,0);
CREATE TABLE notifications (
	position INTEGER NOT NULL, 
	notification_id VARCHAR NOT NULL, 
	rule VARCHAR NOT NULL, 
	source_id VARCHAR NOT NULL, 
	event_s FLOAT NOT NULL, 
	created_s FLOAT NOT NULL, 
	late BOOLEAN NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (position), 
	UNIQUE (notification_id)
);
INSERT INTO "notifications" VALUES(41,'ntf_1','R','s',1000000000.0,1000000000.0,0,X'7B2274797065223A202270726F7879642E6E6F74696669636174696F6E227D');
CREATE TABLE "outbox" (
	position INTEGER NOT NULL, 
	notification_id VARCHAR NOT NULL, 
	endpoint TEXT NOT NULL, 
	secret_kind VARCHAR NOT NULL, 
	secret_name VARCHAR NOT NULL, 
	lane TEXT NOT NULL, 
	state VARCHAR NOT NULL, 
	attempts INTEGER NOT NULL, 
	first_attempt_s FLOAT, 
	next_s FLOAT NOT NULL, 
	done_s FLOAT, 
	last_error TEXT DEFAULT ('') NOT NULL, 
	PRIMARY KEY (position), 
	CONSTRAINT uq_outbox_delivery UNIQUE (notification_id, endpoint), 
	FOREIGN KEY(notification_id) REFERENCES notifications (notification_id) ON DELETE CASCADE
);
INSERT INTO "outbox" VALUES(42,'ntf_1','https://r.example/hook','env','SECRET_A','R' || char(0) || 'https://r.example/hook','pending',2,1000000000.0,1000000000.0,NULL,'status 500');
INSERT INTO "outbox" VALUES(43,'ntf_1','https://r.example/done','env','SECRET_A','R' || char(0) || 'https://r.example/done','delivered',1,NULL,0.0,7.0,'');
CREATE TABLE "rules" (
	name VARCHAR NOT NULL, 
	fingerprint VARCHAR NOT NULL, 
	accepted_s FLOAT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE "sources" (
	source_id VARCHAR NOT NULL, 
	url TEXT NOT NULL, 
	etag TEXT, 
	last_modified TEXT, 
	body_hash VARCHAR, 
	first_contact_s FLOAT, 
	last_start_s FLOAT, 
	last_success_s FLOAT, 
	last_outcome VARCHAR, 
	last_detail TEXT DEFAULT ('') NOT NULL, 
	newest_s FLOAT, 
	next_seq INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	not_before_s FLOAT NOT NULL, 
	lost_items FLOAT NOT NULL, 
	rate_events FLOAT DEFAULT '0' NOT NULL, 
	rate_exposure_s FLOAT DEFAULT '0' NOT NULL, 
	rate_as_of_s FLOAT, 
	PRIMARY KEY (source_id)
);
INSERT INTO "sources" VALUES('s','https://s.example/','"1"',NULL,NULL,NULL,1000000000.0,1000000000.0,'changed','',NULL,8,0,0.0,0.0,3.5,86400.0,1000000000.0);
CREATE TABLE "streams" (
	rule VARCHAR NOT NULL, 
	source_id VARCHAR NOT NULL, 
	counts TEXT NOT NULL, 
	fired_seq INTEGER NOT NULL, 
	captured INTEGER NOT NULL, 
	missed INTEGER NOT NULL, 
	PRIMARY KEY (rule, source_id)
);
INSERT INTO "streams" VALUES('R','s','[5]',7,2,1);
CREATE TABLE texts (
	name VARCHAR NOT NULL, 
	origin VARCHAR NOT NULL, 
	position INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE tokens (
	token_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	scope VARCHAR NOT NULL, 
	sha256 VARCHAR NOT NULL, 
	created_s FLOAT NOT NULL, 
	expires_s FLOAT, 
	PRIMARY KEY (token_id), 
	UNIQUE (name)
);
CREATE INDEX ix_notifications_created ON notifications (created_s);
CREATE INDEX ix_outbox_due ON outbox (state, next_s);
CREATE INDEX ix_outbox_lane ON outbox (lane, state, position);
CREATE INDEX ix_intervals_probed ON intervals (probed_s);
CREATE INDEX ix_intervals_rule ON intervals (rule, probed_s);
CREATE INDEX ix_items_present ON items (source_id, present_s);
COMMIT;
