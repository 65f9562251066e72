DROP PROFILE "Reading";
